"""Krum: the update that is nearest to its neighbours, or the m such (Blanchard et al., 2017).

    score_i = the sum of |u_i - u_j|^2 over the K - f - 2 nearest j;    A = the mean of the m best

distances over all float parameters. Needs K >= 2 f + 3 for f bad results, and m <= K - f. Equal
scores go by order of arrival. Float buffers are those of the results that were chosen.
"""

from collections.abc import Sequence
from itertools import combinations
from math import inf, isfinite

import numpy as np

from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.merging.robust import (
    Blocks,
    Numbers,
    Tensor,
    carrying,
    split,
    stepping,
    updates,
    window_recipe,
)
from spotgrad.protocol.merge_windows import Krum
from spotgrad.protocol.recipe import Recipe

NAME = "krum"


def recipe(merge: Krum, occasion: Occasion, batch: Sequence[Contribution]) -> Recipe:
    """Return the recipe of a window that waits, or of the step by its best updates."""
    told = {"bad": (float(merge.bad),), "best": (float(merge.best),)}
    return window_recipe(merge, occasion, batch, **told)


def distances(numbers: Numbers, blocks: Blocks) -> Numbers:
    """Return what one block adds to the squared distances of each window's pairs (i < j)."""
    found: dict[str, tuple[float, ...]] = {}
    wide = [one.astype(np.float64) for one in updates(numbers, blocks)]
    for number, window in enumerate(split(numbers, wide)):
        found[_pairs(number)] = tuple(_squared(a, b) for a, b in combinations(window, 2))
    return found


def step(numbers: Numbers, blocks: Blocks) -> Blocks:
    """Return one block of the server copy."""
    return stepping(numbers, blocks, _mean_of_best)


def statistics(numbers: Numbers, blocks: Blocks) -> Blocks:
    """Return one block of a float buffer."""
    return carrying(numbers, blocks, _mean_of_best)


def _mean_of_best(numbers: Numbers, number: int, window: Sequence[Tensor]) -> Tensor:
    chosen = best(numbers[_pairs(number)], len(window), *_asked(numbers))
    share = window[0].dtype.type(1.0 / len(chosen))
    total: Tensor = window[chosen[0]] * share
    for one in chosen[1:]:
        total += window[one] * share
    return total


def best(pairs: Sequence[float], results: int, bad: int, most: int) -> list[int]:
    """Return the ``most`` results of the lowest score, in order of arrival.

    ``pairs``: squared distances of (0, 1), (0, 2) ... (1, 2) ..., as ``combinations`` orders them.
    """
    away: list[list[float]] = [[] for _ in range(results)]
    for (one, other), squared in zip(combinations(range(results), 2), pairs, strict=True):
        away[one].append(squared)
        away[other].append(squared)
    scores = [sum(sorted(each)[: results - bad - 2]) for each in away]
    return sorted(sorted(range(results), key=scores.__getitem__)[:most])


def _asked(numbers: Numbers) -> tuple[int, int]:
    return int(numbers["bad"][0]), int(numbers["best"][0])


def _squared(one: Tensor, other: Tensor) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        apart = one - other
        squared = float(np.add.reduce(apart * apart))
    return squared if isfinite(squared) else inf  # two infinite ones are no neighbours


def _pairs(number: int) -> str:
    return f"pairs-{number}"
