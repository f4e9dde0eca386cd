"""How the merge kernel and the admission gate walk a tensor: flat, a block at a time.

A block fits into the cache and is the only thing that is ever copied: no temporary has the size
of a tensor, whatever its memory layout. Elements are visited in C order of the tensor.
"""

from collections.abc import Iterator
from typing import Any, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from spotgrad.errors import Unsupported

BLOCK_BYTES = 262_144  # 256 KiB: fastest of those measured; 4 MiB blocks take 1.4 times as long

Kind = Literal["float", "integer", "boolean"]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
HALVES = frozenset({np.dtype(np.float16), BFLOAT16})
FLOATS = HALVES | {np.dtype(np.float32), np.dtype(np.float64)}


def kind_of(name: str, dtype: np.dtype[Any]) -> Kind:
    """Return how tensor ``name`` is merged.

    Raises:
        Unsupported: neither a float of 16 to 64 bits, nor an integer, nor a boolean.
    """
    if dtype in FLOATS:
        return "float"
    if dtype.kind in "iu":
        return "integer"
    if dtype.kind == "b":
        return "boolean"
    raise Unsupported(
        f"tensor '{name}' has dtype {dtype}: expected bool, an integer,"
        " float16, bfloat16, float32 or float64"
    )


def flat(tensor: NDArray[Any]) -> Any:
    """Return something whose slices are one-dimensional blocks of ``tensor``, in C order.

    A contiguous tensor is viewed; of any other the flat iterator copies the asked block alone
    (``reshape(-1)`` would copy all of it).
    """
    return tensor.reshape(-1) if tensor.flags.c_contiguous else tensor.flat


def spans(size: int, length: int) -> Iterator[slice]:
    """Yield the slices of ``length`` elements (the last may be shorter) that cover ``size``."""
    for first in range(0, size, length):
        yield slice(first, min(first + length, size))
