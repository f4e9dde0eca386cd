"""The averaging times that DeDLOC's paper gives for ResNet-50, from a bandwidth model of ours.

The model: a round moves the 25,557,032 parameters of ResNet-50 in fp16 once in each direction of
the butterfly, and each link carries a fixed share of its nominal bandwidth. That share is the one
parameter, the same for all set-ups and strategies, fitted to the twelve times so that the largest
relative deviation is smallest. No latency, no computation, no queueing: the deviations hold those.
The table is recalled from the paper, not re-read (mean of 100 rounds, in seconds).
"""

import pytest

from spotgrad.planning.averaging import (
    LINK_EFFICIENCY,
    Collaboration,
    all_reduce,
    parameter_server,
)
from spotgrad.planning.bandwidth_lp import hybrid
from tests.unit.planning.peers import group

BITS = 25_557_032 * 16

SERVERS, WORKSTATIONS = [1.0] * 8, [0.2] * 16
SET_UPS = {
    "A": group(*SERVERS),
    "B": group(*WORKSTATIONS),
    "C": group(*SERVERS, *WORKSTATIONS),
    "D": group(*WORKSTATIONS, 2.5),
}
TABLE = {
    "A": (1.19, 4.73, 1.20),
    "B": (5.3, 39.6, 5.3),
    "C": (5.69, 14.1, 2.96),
    "D": (5.3, 3.22, 3.18),
}
"""All-reduce, parameter server, DeDLOC."""
WITHIN = 0.20


def ideal(collaboration: Collaboration) -> tuple[float, float, float]:
    """Seconds of a round on links that carry all that they promise."""
    equal = all_reduce(collaboration)
    assert equal is not None
    server, best = parameter_server(collaboration), hybrid(collaboration)
    return (
        equal.seconds_per_bit * BITS,
        server.seconds_per_bit * BITS,
        best.seconds_per_bit * BITS,
    )


IDEAL = {name: ideal(collaboration) for name, collaboration in SET_UPS.items()}


def fitted(set_ups: set[str]) -> float:
    """The share of the nominal bandwidth with the smallest largest relative deviation.

    A predicted time is ``ideal / share``. Each time has a share that would give it exactly; those
    with the smallest and the largest deviate most, and alike at the mean of the two.
    """
    exact = [i / t for name in set_ups for i, t in zip(IDEAL[name], TABLE[name], strict=True)]
    return (min(exact) + max(exact)) / 2


def deviations(name: str, share: float) -> list[float]:
    return [i / share / t - 1 for i, t in zip(IDEAL[name], TABLE[name], strict=True)]


@pytest.mark.parametrize("name", SET_UPS)
def test_every_time_of_the_table_is_reproduced(name: str) -> None:
    assert max(map(abs, deviations(name, fitted(set(SET_UPS))))) < WITHIN


@pytest.mark.parametrize("name", SET_UPS)
def test_a_set_up_is_predicted_from_the_other_three(name: str) -> None:
    assert max(map(abs, deviations(name, fitted(set(SET_UPS) - {name})))) < WITHIN


def test_the_fit_is_the_best_one() -> None:
    def worst(share: float) -> float:
        return max(abs(one) for name in SET_UPS for one in deviations(name, share))

    best = fitted(set(SET_UPS))
    assert worst(best) < min(worst(best * 0.99), worst(best * 1.01))


def test_the_default_of_the_estimate_is_this_fit() -> None:
    assert pytest.approx(fitted(set(SET_UPS)), abs=0.005) == LINK_EFFICIENCY


def test_the_conclusions_of_the_paper_follow() -> None:
    for homogeneous in ("A", "B"):
        reduce, _, best = IDEAL[homogeneous]
        assert best == pytest.approx(reduce)
    reduce, server, best = IDEAL["C"]
    assert reduce / best == pytest.approx(1.9, abs=0.05)
    assert best < server
    reduce, server, best = IDEAL["D"]
    assert best < server < reduce
