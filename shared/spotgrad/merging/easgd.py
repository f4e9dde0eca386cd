"""EASGD: each result pulls the centre by beta / k, however stale it is (Zhang et al., 2015).

    W <- W + (beta / k) (W_c - W)

The paper's worker is pulled back by the same force and keeps that elastic copy; ours begin from the
centre each time, so only the centre's half of the rule is left.
"""

from collections.abc import Sequence

from spotgrad.merging.convex import convex_recipe
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.merge import Easgd
from spotgrad.protocol.recipe import Recipe


def recipe(merge: Easgd, occasion: Occasion, batch: Sequence[Contribution]) -> Recipe:
    """Return the closed form for ``batch``."""
    return convex_recipe(merge, [1.0 - merge.beta / occasion.in_flight] * len(batch))
