"""Gradients in few bytes: named tensors <-> the tensors of a safetensors file, by a codec.

    <codec>/<part>/<name>           as-is/values/<name>

Everything in such a file is named so, and whatever stands behind the second slash is the name: no
parameter, however it is called, can be taken for another's scale. Nothing else is needed to decode.
Not the arithmetic (``gradient_packing``), and no judgement of the numbers: what is not finite comes
out not finite, for the admission gate. Invariant: ``decode`` either accepts all of a file or
refuses it in one line; it reads what anybody may have written.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NoReturn

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from spotgrad.errors import Malformed
from spotgrad.protocol.codecs import Codec
from spotgrad.protocol.gradient_packing import MEAN, PACKINGS, VALUES, Packing, Parts

Tensors = Mapping[str, NDArray[Any]]

AS_IS: Final = "as-is"
_NOTHING: Tensors = MappingProxyType({})
_FLOATS = {np.dtype(kind) for kind in (ml_dtypes.bfloat16, "f2", "f4", "f8")}


def encode(
    gradients: Tensors, codec: Codec, buffers: Tensors = _NOTHING
) -> dict[str, NDArray[Any]]:
    """Return the tensors to be written: gradients by ``codec``, buffers as they are.

    Gradients are floats of 16 to 64 bits and come back as float32. Finite values beyond a codec's
    range become its largest.

    Raises:
        Malformed: an unknown codec, a gradient that is no float, a name of both kinds.
    """
    packing = _packing(codec)
    made = {_named(AS_IS, VALUES, name): buffer for name, buffer in buffers.items()}
    for name, gradient in gradients.items():
        if name in buffers:
            _refuse(f"{name!r} is a gradient and a buffer")
        if gradient.dtype not in _FLOATS:
            _refuse(f"{name!r} has dtype {gradient.dtype}: expected a float")
        parts = packing.pack(gradient)
        made |= {_named(codec, part, name): tensor for part, tensor in parts.items()}
    return made


def decode(tensors: Tensors) -> dict[str, NDArray[Any]]:
    """Return gradients as float32 and buffers as they are, by their own names.

    Raises:
        Malformed: one line naming the first thing that is wrong: a name of another form, an unknown
            or a second codec, a name that comes twice, a part that is missing, unknown, of another
            dtype or shape, not finite or negative.
    """
    found: dict[str, dict[str, Parts]] = {}
    for place, tensor in sorted(tensors.items()):
        codec, part, name = _place(place)
        found.setdefault(codec, {}).setdefault(name, {})[part] = tensor
    buffers = {name: _buffer(name, parts) for name, parts in found.pop(AS_IS, {}).items()}
    if len(found) > 1:
        _refuse(f"codecs {' and '.join(map(repr, found))} in one file: expected one")
    gradients = {
        name: _gradient(name, parts, _packing(codec))
        for codec, packed in found.items()
        for name, parts in packed.items()
    }
    for name in buffers.keys() & gradients.keys():
        _refuse(f"{name!r} is a gradient and a buffer")
    return gradients | buffers


def _named(codec: str, part: str, name: str) -> str:
    return f"{codec}/{part}/{name}"


def _place(text: str) -> list[str]:
    """Return codec, part and name."""
    place = text.split("/", 2)
    if len(place) != 3:
        _refuse(f"{text!r}: expected <codec>/<part>/<name>")
    return place


def _packing(codec: str) -> Packing:
    if codec not in PACKINGS:
        _refuse(f"codec {codec!r} is unknown: expected one of {sorted(PACKINGS)}")
    return PACKINGS[codec]


def _buffer(name: str, parts: Parts) -> NDArray[Any]:
    _check_parts(name, parts, {VALUES})
    return parts[VALUES]


def _gradient(name: str, parts: Parts, packing: Packing) -> NDArray[Any]:
    _check_parts(name, parts, {VALUES, *packing.beside})
    values = parts[VALUES]
    _check_form(name, VALUES, values, packing.values, values.shape)
    for part in packing.beside:
        rows = (packing.rows(values.shape),)
        _check_form(name, part, parts[part], np.dtype(np.float32), rows)
        if not np.isfinite(parts[part]).all():
            _refuse(f"{name!r}: {part} is not finite")
        if part != MEAN and (parts[part] < 0).any():
            _refuse(f"{name!r}: {part} is negative")
    return packing.unpack(parts)


def _check_parts(name: str, parts: Parts, wanted: set[str]) -> None:
    for part in sorted(parts.keys() ^ wanted):
        _refuse(f"{name!r}: {part!r} is {'missing' if part in wanted else 'unknown'}")


def _check_form(
    name: str, part: str, tensor: NDArray[Any], dtype: np.dtype[Any], shape: tuple[int, ...]
) -> None:
    if tensor.dtype != dtype:
        _refuse(f"{name!r}: {part} has dtype {tensor.dtype}: expected {dtype}")
    if tensor.shape != shape:
        _refuse(f"{name!r}: {part} has shape {tensor.shape}: expected {shape}")


def _refuse(problem: str) -> NoReturn:
    raise Malformed(f"gradients: {problem[:300]}")  # a name alone may be 16 MB long
