"""How each codec packs one gradient: float32, float16, normalised float16, or 8 bits.

Not names or files (``gradient_codec``). A tensor is walked flat, in C order; a row of it shares
what lies beside its values, one float32 each: mean and deviation, or the largest magnitude.
Arithmetic is float64, a span at a time, rounded once. Invariant: what is finite stays finite, and
what is not stays not finite. A NaN that became a number would pass the admission gate.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Tensor = NDArray[Any]
Parts = dict[str, Tensor]
Shape = tuple[int, ...]

VALUES, MEAN, DEVIATION, ABSMAX = "values", "mean", "deviation", "absmax"
BLOCK: Final = 4096
"""Values that share a scale in ``int8-blockwise``, as in bitsandbytes."""
SHORTEST_ROW: Final = 64
"""``scaled-fp16`` normalises by last axis, as hivemind does. A shorter axis would cost more than it
saves (a 3 x 3 convolution 4.7 bytes per number): then a whole tensor shares mean and deviation."""
STEPS: Final = 127
NOT_FINITE: Final = -128
"""The code of 8 bits that no number takes."""

_SPAN = 64 * BLOCK  # elements
_HALF, _SINGLE = np.dtype(np.float16), np.dtype(np.float32)


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
        return _rows(prod(shape), self.row(shape))


def _scaled_row(shape: Shape) -> int:
    return shape[-1] if shape and shape[-1] >= SHORTEST_ROW else prod(shape)


def _block_row(_: Shape) -> int:
    return BLOCK


def _pack_plainly(dtype: np.dtype[Any]) -> Callable[[Tensor], Parts]:
    def pack(tensor: Tensor) -> Parts:
        packed = np.empty(tensor.shape, dtype)
        for block, _, target in _blocks(tensor, packed, _SPAN):
            target[...] = _within(block, dtype)
        return {VALUES: packed}

    return pack


def _unpack_plainly(parts: Parts) -> Tensor:
    return parts[VALUES].astype(np.float32)


def _pack_scaled(tensor: Tensor) -> Parts:
    packed, row = np.empty(tensor.shape, np.float16), _scaled_row(tensor.shape)
    mean, deviation = _spread(tensor, packed, row)
    divisor = np.where(deviation > 0, deviation, 1).astype(np.float64)
    for block, rows, target in _blocks(tensor, packed, row):
        normal = (_bounded(block) - mean[rows, None]) / divisor[rows, None]
        target[...] = _within(normal, _HALF)
    return {VALUES: packed, MEAN: mean, DEVIATION: deviation}


def _spread(tensor: Tensor, packed: Tensor, row: int) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of what is finite in each row, float32."""
    counts, totals, squares = (np.zeros(_rows(tensor.size, row)) for _ in range(3))
    for block, rows, _ in _blocks(tensor, packed, row):
        counts[rows] += np.isfinite(block).sum(axis=1)
        totals[rows] += _finite(_bounded(block)).sum(axis=1)
    mean = (totals / np.maximum(counts, 1)).astype(np.float32)
    for block, rows, _ in _blocks(tensor, packed, row):
        squares[rows] += np.square(_finite(_bounded(block) - mean[rows, None])).sum(axis=1)
    return mean, np.sqrt(squares / np.maximum(counts, 1)).astype(np.float32)


def _unpack_scaled(parts: Parts) -> Tensor:
    made = np.empty(parts[VALUES].shape, np.float32)
    mean, deviation = (parts[name].astype(np.float64)[:, None] for name in (MEAN, DEVIATION))
    for block, rows, target in _blocks(parts[VALUES], made, _scaled_row(made.shape)):
        with np.errstate(invalid="ignore"):  # infinity by a deviation of 0
            target[...] = _within(block * deviation[rows] + mean[rows], _SINGLE)
    return made


def _pack_blockwise(tensor: Tensor) -> Parts:
    packed, absmax = (
        np.empty(tensor.shape, np.int8),
        np.zeros(_rows(tensor.size, BLOCK), np.float32),
    )
    for block, rows, target in _blocks(tensor, packed, BLOCK):
        numbers = _finite(_bounded(block))
        absmax[rows] = np.abs(numbers).max(axis=1)
        largest = absmax[rows, None].astype(np.float64)
        codes = np.rint(numbers * STEPS / np.where(largest > 0, largest, 1))
        target[...] = np.where(np.isfinite(block), codes, NOT_FINITE)
    return {VALUES: packed, ABSMAX: absmax}


def _unpack_blockwise(parts: Parts) -> Tensor:
    made, absmax = np.empty(parts[VALUES].shape, np.float32), parts[ABSMAX].astype(np.float64)
    for block, rows, target in _blocks(parts[VALUES], made, BLOCK):
        numbers = _within(block * absmax[rows, None] / STEPS, _SINGLE)
        target[...] = np.where(block == NOT_FINITE, np.nan, numbers)
    return made


def _rows(size: int, row: int) -> int:
    return -(-size // max(1, row))


def _blocks(source: Tensor, target: Tensor, row: int) -> Iterator[tuple[Tensor, slice, Tensor]]:
    """Yield blocks of whole rows, or of one row's part: float64, its rows, and where it belongs.

    A block is two-dimensional, rows first; ``target`` is contiguous and of the shape of ``source``.
    """
    values, places = np.ascontiguousarray(source).reshape(-1), target.reshape(-1)
    for span in _spans(source.size, max(1, row)):
        rows = slice(span.start // max(1, row), _rows(span.stop, row))
        shape = (rows.stop - rows.start, -1)
        yield values[span].astype(np.float64).reshape(shape), rows, places[span].reshape(shape)


def _spans(size: int, row: int) -> Iterator[slice]:
    """Yield spans of whole rows; of a row that is longer than a span, or cut short, its parts."""
    many = row * max(1, _SPAN // row)
    for first in range(0, size, many):
        last = min(first + many, size)
        cut = last - (last - first) % row
        for begin, end in ((first, cut), (cut, last)):
            for start in range(begin, end, _SPAN):
                yield slice(start, min(start + _SPAN, end))


def _bounded(block: Tensor) -> Tensor:
    """Return the block within the range of float32: no more can come back."""
    return _within(block, _SINGLE)


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
