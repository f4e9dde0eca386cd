from typing import Any

import pytest

from spotgrad.planning.offer import Offer, serving, why_unserved
from spotgrad.protocol.job import Workers

SPOT = Offer("spot", spot=True, gpus=1)
ON_DEMAND = Offer("on_demand", spot=False, gpus=1)
ANYTHING = Offer("local", spot=False, gpus=None)
BOTH = [SPOT, ON_DEMAND]


def asks(**fields: Any) -> Workers:
    return Workers.model_validate(fields)


@pytest.mark.parametrize(
    ("offers", "wanted", "index"),
    [
        (BOTH, asks(), 0),
        (BOTH, asks(gpu=1), 0),
        (BOTH, asks(spot=False), 1),
        ([ON_DEMAND], asks(spot=True), 0),  # interruptions are allowed, not asked for
        ([SPOT], asks(spot=False), None),
        (BOTH, asks(gpu=2), None),
        ([ANYTHING], asks(spot=False, gpu=8), 0),
        ([], asks(), None),
    ],
)
def test_the_first_fleet_that_has_what_the_job_asks_for_serves_it(
    offers: list[Offer], wanted: Workers, index: int | None
) -> None:
    assert serving(offers, wanted) == index


def test_a_job_that_is_served_has_nothing_said_against_it() -> None:
    assert why_unserved(BOTH, asks(spot=False, gpu=1)) is None


def test_without_a_fleet_people_start_what_they_like() -> None:
    assert why_unserved([], asks(spot=False, gpu=16)) is None


def test_too_many_gpus_are_refused_with_both_remedies() -> None:
    assert why_unserved(BOTH, asks(gpu=2)) == (
        "workers.gpu: 2, but a worker of this fleet has 1; "
        "ask for at most 1, or deploy the fleet with WorkerGpus=2"
    )


def test_no_interruptions_are_refused_where_there_is_spot_alone() -> None:
    assert why_unserved([SPOT], asks(spot=False)) == (
        "workers.spot: false, but this fleet has Spot instances alone; allow them with "
        "spot: true, or deploy the fleet with Capacity=spot-then-on-demand"
    )
