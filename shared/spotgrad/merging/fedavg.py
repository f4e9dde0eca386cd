"""FedAvg: a round's mean, weighted by samples, is the next version (McMahan et al., 2017).

    W <- sum_i n_i W_ci / sum_i n_i

over the results of one epoch, which all begin from W. A late result, which began from an older
version, enters by its update: W + (W_c - W_start) stands in the place of W_c. What was redriven
after the last round moves the server copy by its share n / (N + n) of that round's N samples.
"""

from collections.abc import Sequence

from spotgrad.merging.combination import Combination, base_of, client_of, object_of
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.merging.round import Round
from spotgrad.protocol.merge import FedAvg
from spotgrad.protocol.recipe import SERVER, Recipe


def recipe(merge: FedAvg, occasion: Occasion, batch: Sequence[Contribution]) -> Recipe:
    """Return the round's running mean, or, where the round closes, the server copy made of it."""
    under_way = Round(merge, occasion)
    for j, one in enumerate(batch):
        under_way.add(j, _copy(j, one), float(one.samples))
    if occasion.closes is None:
        return under_way.kept()
    server, share = object_of(SERVER), under_way.share
    return under_way.closed(server * (1.0 - share) + under_way.mean * share)


def _copy(number: int, one: Contribution) -> Combination:
    fresh = client_of(number)
    return fresh if one.behind == 0 else object_of(SERVER) + fresh - base_of(number)
