"""Delta: add each update to the server copy, as Downpour adds gradients (Dean et al., 2012).

    W <- W + eta (W_c - W_start)

Stable only up to about eta = 1.5 / k. With one subtask in flight and eta 1 it is plain SGD.
"""

from collections.abc import Sequence

from spotgrad.merging.combination import base_of, client_of, object_of
from spotgrad.merging.convex import alphas_by_staleness, server_blend
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.merge import Delta, Stepping
from spotgrad.protocol.recipe import SERVER, Recipe


def recipe(merge: Delta, occasion: Occasion, batch: Sequence[Contribution]) -> Recipe:
    """Return the server copy plus eta times every update."""
    server, eta = object_of(SERVER), eta_of(merge, occasion)
    for j, _ in enumerate(batch):
        server += (client_of(j) - base_of(j)) * eta
    blend = server_blend(merge, server.weights, alphas_by_staleness(batch))
    return Recipe(outputs={SERVER: blend})


def eta_of(merge: Stepping, occasion: Occasion) -> float:
    """Return how much of an update is added: what the job file says, or 1/k."""
    return 1.0 / occasion.in_flight if merge.eta is None else merge.eta
