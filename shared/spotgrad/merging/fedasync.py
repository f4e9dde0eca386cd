"""FedAsync: VC-ASGD whose client weight decays with staleness (Xie et al., 2019).

    a = (1 - alpha) s(staleness),    W <- (1 - a) W + a W_c

with s = 1, (1 + s)^-exponent, or a hinge. The paper's a is our 1 - alpha: its usual 0.6 is an alpha
of 0.4. Its proximal term belongs to the client's loss, and is not here.
"""

from collections.abc import Sequence

from spotgrad.merging.alpha import alpha_of
from spotgrad.merging.convex import convex_recipe
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.merge import FedAsync
from spotgrad.protocol.recipe import Recipe


def recipe(merge: FedAsync, occasion: Occasion, batch: Sequence[Contribution]) -> Recipe:
    """Return the closed form for ``batch``."""
    del occasion
    alphas = [
        1.0 - (1.0 - alpha_of(merge.alpha, one.epoch)) * decay_of(merge, one.staleness)
        for one in batch
    ]
    return convex_recipe(merge, alphas)


def decay_of(merge: FedAsync, staleness: int) -> float:
    """Return s(staleness): 1 for a fresh result, falling towards 0."""
    if merge.decay == "polynomial":
        return float((1.0 + staleness) ** -merge.exponent)
    if merge.decay == "hinge" and staleness > merge.after:
        return 1.0 / (merge.slope * (staleness - merge.after) + 1.0)
    return 1.0
