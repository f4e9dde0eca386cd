"""Learning rates at known steps, and what holds for every schedule."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotgrad.merging.optimizers.schedule import learning_rate
from spotgrad.protocol.optimizer import RateSchedule


def rates(peak: float, steps: list[int], **schedule: Any) -> list[float]:
    return [learning_rate(peak, RateSchedule(**schedule), t) for t in steps]


def test_constant_is_constant() -> None:
    assert rates(0.1, [1, 2, 10**9]) == [0.1, 0.1, 0.1]


def test_constant_may_warm_up() -> None:
    assert rates(1.0, [1, 2, 4, 5, 99], warmup_steps=4) == [0.25, 0.5, 1.0, 1.0, 1.0]


def test_albert_s_warms_up_and_falls_to_zero() -> None:
    found = rates(
        0.00176,
        [1, 2_500, 5_000, 65_000, 125_000, 125_001],
        shape="linear",
        warmup_steps=5_000,
        total_steps=125_000,
    )
    wanted = [0.00176 / 5_000, 0.00088, 0.00176, 0.00088, 0.0, 0.0]
    assert found == pytest.approx(wanted, rel=1e-12)


def test_swav_s_warms_up_from_a_rate_and_falls_by_a_cosine_to_its_floor() -> None:
    found = rates(
        2.4,
        [250, 500, 2_750, 5_000, 6_000],
        shape="cosine",
        warmup_steps=500,
        warmup_from=0.3,
        total_steps=5_000,
        floor=0.0048,
    )
    assert found == pytest.approx([1.35, 2.4, (2.4 + 0.0048) / 2, 0.0048, 0.0048], rel=1e-12)


@given(
    shape=st.sampled_from(["linear", "cosine"]),
    warmup=st.integers(0, 50),
    falls=st.integers(1, 50),
    start=st.floats(0, 1),
    floor=st.floats(0, 1),
)
def test_it_climbs_to_its_peak_and_then_only_falls(
    shape: Any, warmup: int, falls: int, start: float, floor: float
) -> None:
    end = warmup + falls
    schedule = RateSchedule(
        shape=shape,
        warmup_steps=warmup,
        warmup_from=start if warmup else 0.0,
        total_steps=end,
        floor=floor,
    )
    found = [learning_rate(1.0, schedule, t) for t in range(1, end + 3)]
    climb, fall = found[:warmup], found[max(0, warmup - 1) :]
    assert climb == sorted(climb)
    assert fall == sorted(fall, reverse=True)
    assert not warmup or found[warmup - 1] == pytest.approx(1.0)
    assert found[-3:] == pytest.approx([floor] * 3)
    assert all(0.0 <= rate <= 1.0 + 1e-12 for rate in found)
