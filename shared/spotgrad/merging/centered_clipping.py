"""Centered clipping: move the last step towards each update, by tau at most (Karimireddy, 2021).

    v <- v + (1/K) sum_i (u_i - v) min(1, tau / |u_i - v|)        L times;    A = v

The object ``center`` is v, the last window's step (at first 0); lengths are over all float
parameters. Without tau it is the median of the window's lengths |u_i - v|, which fewer than half
of the results cannot choose. Float buffers move from the server's by the same shares, without ever
leaving the range of what came in.

All lengths follow from the products (u_i - v)(u_j - v) over the model, measured once: v is v_0 plus
a combination c of the u_i - v_0, so that its rounds are a few numbers.
"""

from collections.abc import Sequence
from math import isfinite, sqrt
from statistics import median

import numpy as np

from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.merging.robust import Blocks, Numbers, Tensor, carried, split, updates, window_recipe
from spotgrad.protocol.merge_windows import CenteredClipping
from spotgrad.protocol.recipe import SERVER, Blend, Recipe

NAME, CENTER = "centered-clipping", "center"
PRODUCTS = "products"

Shares = list[float]
"""How much of each result's way from v_0 the centre has gone."""


def recipe(merge: CenteredClipping, occasion: Occasion, batch: Sequence[Contribution]) -> Recipe:
    """Return the recipe of a window that waits, or of the step by its centre."""
    radius = () if merge.radius is None else (merge.radius,)
    told = {"rounds": (float(merge.rounds),), "radius": radius}
    found = window_recipe(merge, occasion, batch, **told)
    if found.function is None:
        return found
    return found.model_copy(update={"outputs": found.outputs | {CENTER: Blend()}})


def products(numbers: Numbers, blocks: Blocks) -> Numbers:
    """Return what one block adds to the products of all results' ways from v_0, row by row."""
    start = blocks.get(CENTER, np.zeros_like(blocks[SERVER]))
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite gets no share
        wide = [(one - start).astype(np.float64) for one in updates(numbers, blocks)]
        return {PRODUCTS: tuple(float(np.add.reduce(a * b)) for a in wide for b in wide)}


def step(numbers: Numbers, blocks: Blocks) -> Blocks:
    """Return one block of the server copy, and of the centre."""
    came = updates(numbers, blocks)
    server, center = blocks[SERVER].copy(), blocks.get(CENTER, np.zeros_like(came[0]))
    eta, first = server.dtype.type(numbers["eta"][0]), center
    for shares in centers(numbers, len(came)):
        center = _moved(first, came, shares)
        server += eta * center
    return {SERVER: server, CENTER: center}


def statistics(numbers: Numbers, blocks: Blocks) -> Blocks:
    """Return one block of a float buffer."""
    came = carried(numbers, blocks)
    *_, shares = centers(numbers, len(came))
    return {SERVER: _moved(blocks[SERVER], came, shares)}


def centers(numbers: Numbers, results: int) -> list[Shares]:
    """Return the centre after each window, as shares of all ``results``' ways."""
    rows = [numbers[PRODUCTS][each * results : (each + 1) * results] for each in range(results)]
    shares, found = [0.0] * results, []
    for window in split(numbers, range(results)):
        radius: float | None = numbers["radius"][0] if numbers["radius"] else None
        for _ in range(int(numbers["rounds"][0])):
            lengths = [_length(rows, shares, one) for one in window]
            radius = median(lengths) if radius is None else radius
            clips = [_clip(length, radius) / len(window) for length in lengths]
            shares = [(1.0 - sum(clips)) * share for share in shares]
            for one, clip in zip(window, clips, strict=True):
                shares[one] += clip
        found.append(shares)
    return found


def _length(rows: Sequence[Sequence[float]], shares: Shares, one: int) -> float:
    """Return how far a result is from the centre."""
    ways = [(other, share) for other, share in enumerate(shares) if share]
    squared = rows[one][one] - 2.0 * sum(share * rows[one][other] for other, share in ways)
    squared += sum(a * b * rows[i][j] for i, a in ways for j, b in ways)
    return sqrt(max(0.0, squared)) if isfinite(squared) else float("inf")


def _clip(length: float, radius: float) -> float:
    if not isfinite(length):
        return 0.0
    return 1.0 if length <= radius else radius / length


def _moved(start: Tensor, came: Sequence[Tensor], shares: Shares) -> Tensor:
    """Return ``start`` and those shares of the ways from there; convex, so in its range."""
    one = start.dtype.type
    moved: Tensor = start * one(1.0 - sum(shares))
    for other, share in zip(came, shares, strict=True):
        if share:
            moved += other * one(share)
    return moved
