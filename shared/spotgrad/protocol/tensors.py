"""Named arrays and their metadata <-> the bytes of one safetensors file, without torch.

Nothing is ever unpickled or executed. The format is small (an 8-byte little-endian length, a JSON
header, the data: https://huggingface.co/docs/safetensors) and read here strictly, so that a header
that lies is refused before anything of a tensor's size is allocated. Written here, too, because
``safetensors.numpy`` silently writes wrong values for arrays that are not contiguous.
Invariant: equal mappings give equal bytes, and ``decode(encode(t, m))`` is ``t`` and ``m`` again.
"""

import hashlib
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from spotgrad.errors import Malformed
from spotgrad.protocol.tensor_header import METADATA, Entry, read_header, write_header

_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "BF16": np.dtype(ml_dtypes.bfloat16),
    **{f"F{bits}": np.dtype(f"<f{bits // 8}") for bits in (16, 32, 64)},
    **{f"I{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"U{bits}": np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
    "BOOL": np.dtype(np.bool_),
}
_NAMES: Final = {dtype: name for name, dtype in _DTYPES.items()}
_SIZES: Final = {name: dtype.itemsize for name, dtype in _DTYPES.items()}


@dataclass(frozen=True, eq=False)
class TensorFile:
    """A decoded file. The arrays are read-only views of the body: copy one before changing it."""

    tensors: dict[str, NDArray[Any]]
    metadata: dict[str, str]


def encode(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return a safetensors file that holds ``tensors`` and ``metadata``.

    Strided, transposed and big-endian arrays are written by value; 0-d and empty shapes are kept.
    The widest items come first, then names in order: every tensor lies at a multiple of its item
    size, and neither the order of the mapping nor the memory layout changes the bytes.

    Raises:
        Malformed: a dtype that has no place in the format, the name ``__metadata__``, text that
            is not Unicode, or names and metadata beyond the header's limit.
    """
    names = _in_order(tensors)
    entries: dict[str, Entry] = {}
    chunks: list[memoryview] = []
    end = 0
    for name, dtype in names.items():
        begin, end = end, end + tensors[name].nbytes
        entries[name] = Entry(dtype, tensors[name].shape, begin, end)
        chunks.append(_bytes_of(tensors[name], _DTYPES[dtype]))
    return b"".join([write_header(entries, metadata), *chunks])


def decode(body: bytes | memoryview) -> TensorFile:
    """Read a safetensors file; the arrays share the memory of ``body``.

    Raises:
        Malformed: one line naming the first thing that is wrong: too short, not JSON, a size or
            an offset that does not fit, a hole, an overlap, bytes missing or left over.
    """
    view = memoryview(body).cast("B")
    header = read_header(view, _SIZES)
    if len(view) != header.end:
        raise Malformed(
            f"safetensors: {len(view)} bytes, but the header promises {header.end}: "
            f"the file is {'truncated' if len(view) < header.end else 'followed by something else'}"
        )
    tensors = {
        name: _array(name, entry, view[header.start + entry.begin : header.start + entry.end])
        for name, entry in header.entries.items()
    }
    return TensorFile(tensors, header.metadata)


def read_metadata(body: bytes | memoryview) -> dict[str, str]:
    """Return the metadata alone; the header must be whole and right, the data may be missing.

    Raises:
        Malformed: the header is not one that ``decode`` would accept.
    """
    return read_header(memoryview(body).cast("B"), _SIZES).metadata


def checksum(tensors: Mapping[str, NDArray[Any]]) -> int:
    """Return the CRC-32 of the data that ``encode`` writes: against accidents, not against people.

    Raises:
        Malformed: as ``encode``.
    """
    found = 0
    for name, dtype in _in_order(tensors).items():
        found = zlib.crc32(_bytes_of(tensors[name], _DTYPES[dtype]), found)
    return found


def digest(body: bytes | memoryview) -> str:
    """Return the SHA-256 of ``body`` in lower-case hexadecimal."""
    return hashlib.sha256(body).hexdigest()


def _in_order(tensors: Mapping[str, NDArray[Any]]) -> dict[str, str]:
    """Return the dtype of each tensor, in the order of the data."""
    names = {name: _dtype_name(name, array.dtype) for name, array in tensors.items()}
    return dict(sorted(names.items(), key=lambda named: (-_SIZES[named[1]], named[0])))


def _dtype_name(name: str, dtype: np.dtype[Any]) -> str:
    if name == METADATA:
        raise Malformed(f"tensor {name!r}: the format keeps this name for itself; rename it")
    found = _NAMES.get(dtype.newbyteorder("<"))
    if found is None:
        raise Malformed(
            f"tensor {name!r}: dtype {dtype} cannot be written; use {', '.join(_SIZES)}"
        )
    return found


def _bytes_of(array: NDArray[Any], dtype: np.dtype[Any]) -> memoryview:
    # reshape comes last: ascontiguousarray turns 0-d into 1-d; bytes: bfloat16 exports no buffer.
    return np.ascontiguousarray(array, dtype).reshape(math.prod(array.shape)).view(np.uint8).data


def _array(name: str, entry: Entry, data: memoryview) -> NDArray[Any]:
    """Return a read-only view; numpy copes with an offset that is not aligned."""
    if entry.dtype == "BOOL" and (np.frombuffer(data, np.uint8) > 1).any():
        raise Malformed(f"safetensors: tensor {name!r}: a boolean that is neither 0 nor 1")
    array: NDArray[Any] = np.ndarray(entry.shape, _DTYPES[entry.dtype], buffer=data)
    array.flags.writeable = False
    return array
