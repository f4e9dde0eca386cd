"""The table of block functions, for the rules whose arithmetic is not linear.

A block function is told the recipe's numbers and, for one block of one tensor, every input by name,
in the precision that the merge computes in (float32, or float64 for float64 tensors); it returns a
block for each output whose parameters the recipe leaves to it. What it must know of more than a
block it measures first: sums over each tensor, or over all float parameters of the model.
Invariant: element-wise operations alone, in a fixed order, and sums over blocks of a fixed length,
so that the bits depend neither on the block size nor on the processor.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from spotgrad.errors import Malformed
from spotgrad.merging import dc_asgd

Numbers = Mapping[str, tuple[float, ...]]
Blocks = Mapping[str, NDArray[Any]]
BlockFunction = Callable[[Numbers, Blocks], Blocks]
Measure = Callable[[Numbers, Blocks], Numbers]
"""What one block adds to the sums, by name; a name has equally many sums in every block."""


@dataclass(frozen=True)
class Function:
    """A block function, and the sums that it is told beside the recipe's numbers."""

    apply: BlockFunction
    of_model: Measure | None = None
    """Summed over all float parameters before anything else."""
    of_tensor: Measure | None = None
    """Summed over the tensor at hand; it is told the sums of the model already."""


FUNCTIONS: Mapping[str, Function] = {dc_asgd.NAME: Function(dc_asgd.correct)}


def function_of(name: str) -> Function:
    """Return the block function that a recipe names; raises ``Malformed`` for an unknown one."""
    if name not in FUNCTIONS:
        raise Malformed(
            f"recipe: function {name!r} is unknown: expected one of {sorted(FUNCTIONS)}"
        )
    return FUNCTIONS[name]


def added(sums: Numbers, more: Numbers) -> Numbers:
    """Return the sums with those of one more block."""
    return dict(sums) | {
        name: tuple(a + b for a, b in zip(sums.get(name, (0.0,) * len(one)), one, strict=True))
        for name, one in more.items()
    }
