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
from spotgrad.merging import centered_clipping, dc_asgd, krum, median, trimmed_mean
from spotgrad.merging.optimizers import adamw, gradient, lamb, sgd

Numbers = Mapping[str, tuple[float, ...]]
Blocks = Mapping[str, NDArray[Any]]
BlockFunction = Callable[[Numbers, Blocks], Blocks]
Measure = Callable[[Numbers, Blocks], Numbers]
"""What one block adds to the sums, by name; a name has equally many sums in every block."""


@dataclass(frozen=True)
class Function:
    """A block function, and the sums that it is told beside the recipe's numbers.

    Of the tensor at hand ``apply`` and ``of_tensor`` are also told the number of ``dimensions``.
    """

    apply: BlockFunction
    of_model: Measure | None = None
    """Summed over all float parameters before anything else."""
    of_tensor: Measure | None = None
    """Summed over the tensor at hand; it is told the sums of the model already."""
    buffers: BlockFunction | None = None
    """Makes the server copy's float buffers, where a recipe leaves them to it."""

    @property
    def of_buffers(self) -> BlockFunction:
        """Return what makes float buffers; raises ``Malformed`` where nothing does."""
        if self.buffers is None:
            raise Malformed("recipe: its function makes no buffers")
        return self.buffers


FUNCTIONS: Mapping[str, Function] = {
    dc_asgd.NAME: Function(dc_asgd.correct),
    sgd.NAME: Function(sgd.step, of_model=gradient.squares),
    adamw.NAME: Function(adamw.step, of_model=gradient.squares),
    lamb.NAME: Function(lamb.step, of_model=gradient.squares, of_tensor=lamb.norms),
    median.NAME: Function(median.step, buffers=median.statistics),
    trimmed_mean.NAME: Function(trimmed_mean.step, buffers=trimmed_mean.statistics),
    krum.NAME: Function(krum.step, of_model=krum.distances, buffers=krum.statistics),
    centered_clipping.NAME: Function(
        centered_clipping.step,
        of_model=centered_clipping.products,
        buffers=centered_clipping.statistics,
    ),
}


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
