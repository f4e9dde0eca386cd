"""How each codec packs one gradient: float32, float16, normalised float16, or 8 bits.

Not names or files (``gradient_codec``). A tensor is walked flat, in C order; a row of it shares
what lies beside its values, one float32 each: mean and deviation, or the largest magnitude.
Arithmetic is float64, a span at a time, rounded once. Invariant: what is finite stays finite, and
what is not stays not finite. A NaN that became a number would pass the admission gate.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

Tensor = NDArray[Any]
Parts = dict[str, Tensor]
Shape = tuple[int, ...]
Codec = Literal["fp32", "fp16", "scaled-fp16", "int8-blockwise"]

VALUES, MEAN, DEVIATION, ABSMAX = "values", "mean", "deviation", "absmax"
BLOCK: Final = 4096
"""Values that share a scale in ``int8-blockwise``, as in bitsandbytes."""
SHORTEST_ROW: Final = 64
"""``scaled-fp16`` normalises by last axis, as hivemind does. A shorter axis would cost more than it
saves (a 3 x 3 convolution 4.7 bytes per number): then a whole tensor shares mean and deviation."""
STEPS: Final = 127
NOT_FINITE: Final = -128
"""The code of 8 bits that no number takes."""

_SPAN = 64 * BLOCK  # elements; whole blocks
_HALF, _SINGLE = np.dtype(np.float16), np.dtype(np.float32)
_Span = tuple[slice, NDArray[np.intp]]


@dataclass(frozen=True)
class Packing:
    """One codec: the dtype of its values, what lies beside them, and the way there and back."""

    values: np.dtype[Any]
    pack: Callable[[Tensor], Parts]
    unpack: Callable[[Parts], Tensor]
    beside: tuple[str, ...] = ()
    """Parts of one float32 per row."""
    row: Callable[[Shape], int] = prod

    def rows(self, shape: Shape) -> int:
        """Return how many rows a tensor of this shape has."""
        return -(-prod(shape) // max(1, self.row(shape)))


def _scaled_row(shape: Shape) -> int:
    return shape[-1] if shape and shape[-1] >= SHORTEST_ROW else prod(shape)


def _block_row(_: Shape) -> int:
    return BLOCK


def _pack_plainly(dtype: np.dtype[Any]) -> Callable[[Tensor], Parts]:
    def pack(tensor: Tensor) -> Parts:
        packed = np.empty(tensor.shape, dtype)
        source, target = _flat(tensor), packed.reshape(-1)
        for span, _ in _spans(tensor.size, 1):
            target[span] = _within(source[span].astype(np.float64), dtype)
        return {VALUES: packed}

    return pack


def _unpack_plainly(parts: Parts) -> Tensor:
    return parts[VALUES].astype(np.float32)


def _pack_scaled(tensor: Tensor) -> Parts:
    source, row = _flat(tensor), max(1, _scaled_row(tensor.shape))
    counts, totals, squares = (np.zeros(-(-tensor.size // row)) for _ in range(3))
    for span, owners in _spans(tensor.size, row):
        block = _read(source, span)
        _add(counts, owners, np.isfinite(block))
        _add(totals, owners, _finite(block))
    mean = (totals / np.maximum(counts, 1)).astype(np.float32)
    for span, owners in _spans(tensor.size, row):
        _add(squares, owners, _finite(_read(source, span) - mean[owners]) ** 2)
    deviation = np.sqrt(squares / np.maximum(counts, 1)).astype(np.float32)
    packed = np.empty(tensor.shape, np.float16)
    target, divisor = packed.reshape(-1), np.where(deviation > 0, deviation, 1).astype(np.float64)
    for span, owners in _spans(tensor.size, row):
        normal = (_read(source, span) - mean[owners]) / divisor[owners]
        target[span] = _within(normal, _HALF)
    return {VALUES: packed, MEAN: mean, DEVIATION: deviation}


def _unpack_scaled(parts: Parts) -> Tensor:
    shape = parts[VALUES].shape
    mean, deviation = (parts[name].astype(np.float64) for name in (MEAN, DEVIATION))

    def widen(block: Tensor, owners: Tensor) -> Tensor:
        return block.astype(np.float64) * deviation[owners] + mean[owners]

    return _unpacked(parts[VALUES], _scaled_row(shape), widen)


def _pack_blockwise(tensor: Tensor) -> Parts:
    source, packed = _flat(tensor), np.empty(tensor.shape, np.int8)
    target, absmax = packed.reshape(-1), np.zeros(-(-tensor.size // BLOCK), np.float32)
    for span, owners in _spans(tensor.size, BLOCK):
        block = _read(source, span)
        starts = np.arange(0, block.size, BLOCK)
        largest = np.maximum.reduceat(np.abs(_finite(block)), starts).astype(np.float32)
        absmax[owners[0] : owners[-1] + 1] = largest
        codes = np.rint(
            _finite(block) * STEPS / np.where(largest > 0, largest, 1)[owners - owners[0]]
        )
        target[span] = np.where(np.isfinite(block), codes, NOT_FINITE)
    return {VALUES: packed, ABSMAX: absmax}


def _unpack_blockwise(parts: Parts) -> Tensor:
    absmax = parts[ABSMAX].astype(np.float64)

    def widen(block: Tensor, owners: Tensor) -> Tensor:
        wide = block.astype(np.float64) * absmax[owners] / STEPS
        return np.where(block == NOT_FINITE, np.nan, wide)

    return _unpacked(parts[VALUES], BLOCK, widen)


def _unpacked(values: Tensor, row: int, widen: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    made = np.empty(values.shape, np.float32)
    source, target = _flat(values), made.reshape(-1)
    for span, owners in _spans(values.size, max(1, row)):
        with np.errstate(invalid="ignore"):  # infinity by a deviation of 0
            target[span] = _within(widen(source[span], owners), _SINGLE)
    return made


def _flat(tensor: Tensor) -> Tensor:
    return np.ascontiguousarray(tensor).reshape(-1)


def _read(source: Tensor, span: slice) -> Tensor:
    """Return a span in float64, within the range of float32: all that can come back."""
    return _within(source[span].astype(np.float64), _SINGLE)


def _spans(size: int, row: int) -> Iterator[_Span]:
    """Yield each span of a tensor, and the row that each of its elements belongs to."""
    for first in range(0, size, _SPAN):
        last = min(first + _SPAN, size)
        yield slice(first, last), np.arange(first, last) // row


def _add(totals: Tensor, owners: Tensor, terms: Tensor) -> None:
    """Add each term to its row's total."""
    first = owners[0]
    found = np.bincount(owners - first, weights=terms)
    totals[first : first + found.size] += found


def _finite(block: Tensor) -> Tensor:
    """Return the block with zeros where it is not finite."""
    return np.where(np.isfinite(block), block, 0.0)


def _within(block: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Return the block with finite values brought into the range of ``dtype``."""
    limit = float(np.finfo(dtype).max)
    return np.where(np.isfinite(block), np.clip(block, -limit, limit), block)


PACKINGS: Mapping[str, Packing] = {
    "fp32": Packing(_SINGLE, _pack_plainly(_SINGLE), _unpack_plainly),
    "fp16": Packing(_HALF, _pack_plainly(_HALF), _unpack_plainly),
    "scaled-fp16": Packing(_HALF, _pack_scaled, _unpack_scaled, (MEAN, DEVIATION), _scaled_row),
    "int8-blockwise": Packing(
        np.dtype(np.int8), _pack_blockwise, _unpack_blockwise, (ABSMAX,), _block_row
    ),
}
