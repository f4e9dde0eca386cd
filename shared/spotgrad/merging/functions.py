"""The table of block functions, for the rules whose arithmetic is not linear.

A block function is told the recipe's numbers and, for one block of one tensor, every input by name,
in the precision that the merge computes in (float32, or float64 for float64 tensors); it returns a
block for each output whose parameters the recipe leaves to it. Invariant: element-wise operations
alone, in a fixed order, so that the bits depend neither on the block size nor on the processor.
"""

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from spotgrad.errors import Malformed
from spotgrad.merging import dc_asgd

Numbers = Mapping[str, tuple[float, ...]]
Blocks = Mapping[str, NDArray[Any]]
BlockFunction = Callable[[Numbers, Blocks], Blocks]

FUNCTIONS: Mapping[str, BlockFunction] = {dc_asgd.NAME: dc_asgd.correct}


def function_of(name: str) -> BlockFunction:
    """Return the block function that a recipe names; raises ``Malformed`` for an unknown one."""
    if name not in FUNCTIONS:
        raise Malformed(
            f"recipe: function {name!r} is unknown: expected one of {sorted(FUNCTIONS)}"
        )
    return FUNCTIONS[name]
