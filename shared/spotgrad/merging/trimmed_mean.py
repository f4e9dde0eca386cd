"""Trimmed mean: per coordinate without the largest and smallest updates (Yin et al., 2018).

    A = the mean of u_(b+1) ... u_(K-b), sorted coordinate by coordinate; needs K > 2 b

Up to b results of a window, whatever they hold, cannot move a coordinate beyond what another
result says; the others are averaged, with less noise than a median has.
"""

from collections.abc import Sequence

from spotgrad.merging.median import in_order
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.merging.robust import Blocks, Numbers, Tensor, carrying, stepping, window_recipe
from spotgrad.protocol.merge_windows import TrimmedMean
from spotgrad.protocol.recipe import Recipe

NAME = "trimmed-mean"


def recipe(merge: TrimmedMean, occasion: Occasion, batch: Sequence[Contribution]) -> Recipe:
    """Return the recipe of a window that waits, or of the step by its trimmed mean."""
    return window_recipe(merge, occasion, batch, trim=(float(merge.trim),))


def step(numbers: Numbers, blocks: Blocks) -> Blocks:
    """Return one block of the server copy."""
    return stepping(numbers, blocks, _trimmed)


def statistics(numbers: Numbers, blocks: Blocks) -> Blocks:
    """Return one block of a float buffer."""
    return carrying(numbers, blocks, _trimmed)


def _trimmed(numbers: Numbers, number: int, window: Sequence[Tensor]) -> Tensor:
    del number
    trim = int(numbers["trim"][0])
    ranked = in_order(window)[trim : len(window) - trim]
    share = ranked.dtype.type(1.0 / len(ranked))
    total: Tensor = ranked[0] * share
    for row in ranked[1:]:  # not np.sum: its order is numpy's own
        total += row * share
    return total
