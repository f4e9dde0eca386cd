"""DiLoCo: one outer Nesterov step by the mean update of a round (Douillard et al., 2023).

    D = mean_i (W_ci - W_start_i)
    v <- mu v + D
    W <- W + eta (D + mu v)

The paper's outer gradient is -D, its inner optimizer AdamW, which is yours to choose in ``local``.
The object ``momentum`` is v; without momentum there is none, and eta 1 is the mean of the copies.
What was redriven after the last round moves the server copy by eta times its share of that round,
and leaves the momentum as it is.
"""

from collections.abc import Sequence

from spotgrad.merging.combination import ZERO, base_of, client_of, object_of
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.merging.round import Round
from spotgrad.protocol.merge import DiLoCo
from spotgrad.protocol.recipe import SERVER, Recipe

MOMENTUM = "momentum"


def recipe(merge: DiLoCo, occasion: Occasion, batch: Sequence[Contribution]) -> Recipe:
    """Return the round's running mean update, or the outer step where the round closes."""
    under_way = Round(merge, occasion)
    for j, one in enumerate(batch):
        mass = float(one.samples if merge.weigh == "samples" else 1)
        under_way.add(j, client_of(j) - base_of(j), mass)
    if occasion.closes is None:
        return under_way.kept()
    server, update = object_of(SERVER), under_way.mean
    if occasion.closes == "rest":
        return under_way.closed(server + update * (merge.eta * under_way.share))
    if merge.momentum == 0.0:
        return under_way.closed(server + update * merge.eta)
    before = object_of(MOMENTUM) if MOMENTUM in occasion.objects else ZERO
    velocity = before * merge.momentum + update
    step = update + velocity * merge.momentum
    return under_way.closed(server + step * merge.eta, momentum=velocity)
