"""EMA: an exponential average of the server copy, published beside it, whatever the rule.

    E <- E + w (W - E),    w = (1 - d^n) / (1 - d^T)

for a version that n results made, up to the T-th in all: the usual average with the usual bias
correction, so that the first version is its own average and no early one weighs on. A version that
a batch of n made counts n times; the copies in between were never published.
"""

from spotgrad.merging.occasion import Occasion
from spotgrad.protocol.recipe import EMA, MERGED, SERVER, Blend, Recipe

TOTAL, WAITING = "ema_results", "ema_waiting"


def with_ema(recipe: Recipe, decay: float, occasion: Occasion, results: int) -> Recipe:
    """Return the recipe that also moves the average, if it makes a version."""
    waiting = occasion.tally.get(WAITING, 0.0) + results
    total = occasion.tally.get(TOTAL, 0.0)
    if SERVER not in recipe.outputs:
        tally = recipe.tally | {WAITING: waiting, TOTAL: total}
        return recipe.model_copy(update={"tally": tally})
    total += waiting
    share = (1.0 - decay**waiting) / (1.0 - decay**total)
    weights = {EMA: 1.0 - share, MERGED: share} if share < 1.0 else {MERGED: 1.0}
    return recipe.model_copy(
        update={
            "outputs": recipe.outputs | {EMA: Blend(parameters=weights, buffers=weights)},
            "tally": recipe.tally | {TOTAL: total},
        }
    )
