"""The closed form of blending one copy after the other, which convex rules and all buffers share.

    W <- a_j W + (1 - a_j) W_cj    for j = 1 ... n

folded into one pass:

    W <- (prod_i a_i) W + sum_j (1 - a_j) (prod_{i>j} a_i) W_cj

All weights are between 0 and 1 and sum to 1: the blend stays inside the range of its inputs, so
that a running variance cannot turn negative here.
"""

from collections.abc import Sequence

from spotgrad.merging.occasion import Contribution
from spotgrad.protocol.merge import Rule
from spotgrad.protocol.recipe import SERVER, Blend, Recipe, Weights, client


def blend_one_by_one(alphas: Sequence[float]) -> Weights:
    """Return the weights of the server copy and of each result, which ``alphas[j]`` meets."""
    clients: list[float] = []
    later = 1.0  # prod_{i>j} a_i
    for alpha in reversed(alphas):
        clients.append((1.0 - alpha) * later)
        later *= alpha
    return {SERVER: later} | {client(j): weight for j, weight in enumerate(reversed(clients))}


def buffer_weights(merge: Rule, alphas: Sequence[float]) -> Weights:
    """Return the weights of float buffers under a rule that blends by ``alphas``."""
    if merge.buffers == "keep":
        return {SERVER: 1.0}
    if merge.buffers == "latest" and alphas:
        return {client(len(alphas) - 1): 1.0}
    return blend_one_by_one(alphas)


def alphas_by_staleness(batch: Sequence[Contribution]) -> list[float]:
    """Return 1 - 1/(1 + staleness): how rules that have no alpha blend float buffers."""
    return [1.0 - 1.0 / (1 + one.staleness) for one in batch]


def convex_recipe(merge: Rule, alphas: Sequence[float]) -> Recipe:
    """Return the recipe of a rule that does nothing but blend."""
    return Recipe(outputs={SERVER: server_blend(merge, blend_one_by_one(alphas), alphas)})


def server_blend(merge: Rule, parameters: Weights | None, alphas: Sequence[float]) -> Blend:
    """Return how a rule makes the server copy: ``parameters`` its own way, buffers by ``alphas``.

    ``parameters`` None: the recipe's function makes them.
    """
    return Blend(parameters=parameters, buffers=buffer_weights(merge, alphas))
