"""FedBuff: collect K updates, then take one step by their mean (Nguyen et al., 2022).

    B <- B + n (1 + tau)^-exponent (W_c - W_start)       every result
    W <- W + eta B / sum n;  B <- 0                      every K-th, and the last of the job

n is 1, or the result's samples; tau is how many versions the result is behind. Between two steps
the server copy stays as it is and no version is made: the object ``buffer`` alone changes. Float
buffers are collected beside it, so that a step gives the server their mean.
"""

from collections.abc import Sequence

from spotgrad.merging.combination import ZERO, Combination, base_of, client_of, object_of
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.merge import FedBuff
from spotgrad.protocol.recipe import CLIENT, SERVER, Blend, Recipe, Weights

BUFFER, WINDOW, MASS = "buffer", "window", "mass"


def recipe(merge: FedBuff, occasion: Occasion, batch: Sequence[Contribution]) -> Recipe:
    """Return the formula, once per result; ``buffer`` is left where a window is still open."""
    window = _Window(merge, occasion)
    for j, one in enumerate(batch):
        window.add(j, one)
        if window.seen >= (merge.size or occasion.in_flight) or (
            occasion.last and j == len(batch) - 1
        ):
            window.close(merge.eta)
    return window.recipe(merge, occasion)


class _Window:
    """The fold in progress; it lives inside one call of ``recipe``."""

    def __init__(self, merge: FedBuff, occasion: Occasion) -> None:
        left = object_of(BUFFER) if BUFFER in occasion.objects else ZERO
        self.seen = int(occasion.tally.get(WINDOW, 0))
        self._mass = occasion.tally.get(MASS, 0.0)
        self._merge = merge
        self._server, self._updates, self._statistics = object_of(SERVER), left, left
        self._mean: Combination | None = None
        self._steps = 0

    def add(self, number: int, one: Contribution) -> None:
        share = float(one.samples if self._merge.weigh == "samples" else 1)
        weight = share * (1.0 + one.behind + self._steps) ** -self._merge.exponent
        self._updates += (client_of(number) - base_of(number)) * weight
        self._statistics += client_of(number) * share
        self._mass, self.seen = self._mass + share, self.seen + 1

    def close(self, eta: float) -> None:
        self._server += self._updates * (eta / self._mass)
        self._mean = self._statistics * (1.0 / self._mass)
        self._updates, self._statistics = ZERO, ZERO
        self._mass, self.seen, self._steps = 0.0, 0, self._steps + 1

    def recipe(self, merge: FedBuff, occasion: Occasion) -> Recipe:
        outputs: dict[str, Blend] = {}
        if self._mean is not None:
            buffers = _statistics(merge, self._mean.weights)
            outputs[SERVER] = Blend(parameters=self._server.weights, buffers=buffers)
        if self.seen:
            outputs[BUFFER] = Blend(
                parameters=self._updates.weights, buffers=self._statistics.weights
            )
        drops = () if self.seen or BUFFER not in occasion.objects else (BUFFER,)
        return Recipe(outputs=outputs, drops=drops, tally={WINDOW: self.seen, MASS: self._mass})


def _statistics(merge: FedBuff, mean: Weights) -> Weights:
    """Return the weights of the server's float buffers after a step."""
    if merge.buffers == "keep":
        return {SERVER: 1.0}
    if merge.buffers == "latest":
        latest = [name for name in mean if name.startswith(CLIENT)][-1]
        return {latest: 1.0}
    return mean
