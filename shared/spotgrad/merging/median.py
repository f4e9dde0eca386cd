"""Median: each coordinate moves by the median of the window's updates (Yin et al., 2018).

    A = median(u_1 ... u_K), coordinate by coordinate; for even K the mean of the two in the middle

Fewer than half of a window's results, whatever they hold, cannot move a coordinate beyond what
another result says.
"""

from collections.abc import Sequence

import numpy as np

from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.merging.robust import Blocks, Numbers, Tensor, carrying, stepping, window_recipe
from spotgrad.protocol.merge_windows import Median
from spotgrad.protocol.recipe import Recipe

NAME = "median"


def recipe(merge: Median, occasion: Occasion, batch: Sequence[Contribution]) -> Recipe:
    """Return the recipe of a window that waits, or of the step by its median."""
    return window_recipe(merge, occasion, batch)


def step(numbers: Numbers, blocks: Blocks) -> Blocks:
    """Return one block of the server copy."""
    return stepping(numbers, blocks, _median)


def statistics(numbers: Numbers, blocks: Blocks) -> Blocks:
    """Return one block of a float buffer."""
    return carrying(numbers, blocks, _median)


def _median(numbers: Numbers, number: int, window: Sequence[Tensor]) -> Tensor:
    del numbers, number
    ranked = in_order(window)
    middle = len(ranked) // 2
    upper: Tensor = ranked[middle]
    if len(ranked) % 2:
        return upper
    half = ranked.dtype.type(0.5)
    lower: Tensor = ranked[middle - 1]
    mean: Tensor = half * lower + half * upper  # their sum might overflow
    return mean


def in_order(window: Sequence[Tensor]) -> Tensor:
    """Return the window's values sorted within each coordinate, the smallest first.

    Zeros lose their sign: how 0.0 and -0.0 are sorted is up to the processor.
    """
    ranked: Tensor = np.sort(np.stack(window) + window[0].dtype.type(0.0), axis=0)
    return ranked
