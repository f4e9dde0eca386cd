import pytest

from spotgrad.merging.damped_delta import recipe
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.merge import DampedDelta

RULE = DampedDelta(rule="damped-delta")


@pytest.mark.parametrize(
    ("staleness", "weights"),
    [
        (0, {"client-0": 1.0}),
        (1, {"server": 0.5, "client-0": 1.0, "base-0": -0.5}),
        (3, {"server": 0.75, "client-0": 0.75, "base-0": -0.5}),
    ],
)
def test_a_fresh_result_replaces_and_a_stale_one_is_damped(
    staleness: int, weights: dict[str, float]
) -> None:
    found = recipe(RULE, Occasion(), [Contribution(1, staleness, 10)])
    assert found.weights("server") == weights


def test_m_may_be_the_subtasks_in_flight() -> None:
    fixed = DampedDelta(rule="damped-delta", m="in-flight")
    found = recipe(fixed, Occasion(in_flight=4), [Contribution(1, 0, 10)])
    assert found.weights("server") == {"server": 0.75, "client-0": 0.75, "base-0": -0.5}


def test_float_buffers_blend_with_1_over_m() -> None:
    found = recipe(RULE, Occasion(), [Contribution(1, 3, 10)])
    assert found.outputs["server"].buffers == {"server": 0.75, "client-0": 0.25}
