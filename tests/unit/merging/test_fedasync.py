import pytest

from spotgrad.merging.fedasync import decay_of, recipe
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.merge import FedAsync


@pytest.mark.parametrize(
    ("options", "decays"),
    [
        ({"decay": "constant"}, [1, 1, 1]),
        ({}, [1, 0.5, 0.25]),
        ({"exponent": 1}, [1, 0.25, 1 / 16]),
        ({"decay": "hinge", "after": 3, "slope": 2}, [1, 1, 1 / 25]),
    ],
)
def test_the_client_s_weight_falls_with_staleness(
    options: dict[str, object], decays: list[float]
) -> None:
    merge = FedAsync.model_validate({"rule": "fedasync", **options})
    assert [decay_of(merge, staleness) for staleness in (0, 3, 15)] == pytest.approx(decays)


def test_a_fresh_result_meets_the_papers_mixing_weight() -> None:
    found = recipe(FedAsync(rule="fedasync"), Occasion(), [Contribution(1, 0, 1)])
    assert found.weights("server") == pytest.approx({"server": 0.4, "client-0": 0.6})
