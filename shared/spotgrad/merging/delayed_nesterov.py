"""Delayed Nesterov: every update moves the server, momentum turns once per N (Liu et al., 2024).

With the update d = W_c - W_start of the t-th result of a window of N, momentum v and the window's
sum D:

    D <- D + d
    W <- W + eta (c beta v + d/N)                                  t < N
    v <- beta v + D/N;  W <- W + eta ((1 - cN + c) beta v + d/N);  D <- 0    t = N

Over a window with c = 0 that is one Nesterov step on the mean update. The objects ``momentum`` and
``buffer`` (D) lie beside the model; ``tally.window`` counts the results in D.
"""

from collections.abc import Sequence

from spotgrad.merging.combination import ZERO, Combination, base_of, client_of, object_of
from spotgrad.merging.convex import alphas_by_staleness, server_blend
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.merge import DelayedNesterov
from spotgrad.protocol.recipe import SERVER, Blend, Recipe

LEAST = 8
"""The paper's N is the number of workers. With two, momentum 0.9 ended a small job at chance (an
accuracy of 0.09, against 0.975 with N = 8): each window adds up to ten times its mean update."""

MOMENTUM, BUFFER, WINDOW = "momentum", "buffer", "window"


def recipe(merge: DelayedNesterov, occasion: Occasion, batch: Sequence[Contribution]) -> Recipe:
    """Return the formula, once per result; momentum is written when a window has closed."""
    size = merge.every or max(LEAST, occasion.in_flight)
    c, beta = merge.spread / size, merge.momentum
    server, velocity = object_of(SERVER), _present(occasion, MOMENTUM)
    total, seen, turned = _present(occasion, BUFFER), int(occasion.tally.get(WINDOW, 0)), False
    for j, _ in enumerate(batch):
        update, seen = client_of(j) - base_of(j), seen + 1
        total, push = total + update, c
        if seen >= size:
            velocity, push = velocity * beta + total * (1.0 / size), 1.0 - c * size + c
            total, seen, turned = ZERO, 0, True
        server += (velocity * (push * beta) + update * (1.0 / size)) * merge.eta
    outputs = {SERVER: server_blend(merge, server.weights, alphas_by_staleness(batch))}
    if turned:
        outputs[MOMENTUM] = Blend(parameters=velocity.weights)
    if seen:
        outputs[BUFFER] = Blend(parameters=total.weights)
    drops = () if seen or BUFFER not in occasion.objects else (BUFFER,)
    return Recipe(outputs=outputs, drops=drops, tally={WINDOW: float(seen)})


def _present(occasion: Occasion, name: str) -> Combination:
    return object_of(name) if name in occasion.objects else ZERO
