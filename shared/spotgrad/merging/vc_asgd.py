"""VC-ASGD: blend each client copy into the server copy, in order of arrival (Atre et al., 2021).

    W_s <- alpha W_s + (1 - alpha) W_c

A batch is that formula once per result, folded into one pass (``convex``); alpha is that of the
result's own epoch. Staleness and sample counts do not enter.
"""

from collections.abc import Sequence

from spotgrad.merging.alpha import alpha_of
from spotgrad.merging.convex import convex_recipe
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.merge import VcAsgd
from spotgrad.protocol.recipe import Recipe


def recipe(merge: VcAsgd, occasion: Occasion, batch: Sequence[Contribution]) -> Recipe:
    """Return the closed form for ``batch``."""
    del occasion
    return convex_recipe(merge, [alpha_of(merge.alpha, one.epoch) for one in batch])
