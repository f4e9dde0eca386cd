import pytest

from spotgrad.planning.bill import Prices, Transfers, bill, transfers
from spotgrad.planning.forecast import Capacity, Work, forecast

PAPER = Work(40, 50, 5, barrier=False, subtask_seconds=72)
"""Eight hours on five machines, as in the paper's cost table."""
CALM = Capacity(0.0, 120, 0, 120, 20)


def test_the_papers_cost() -> None:
    """5 x 0.3328 USD/h on demand and 70% less on Spot: 13.4 and 4 USD for 8 hours."""
    made = forecast(PAPER, CALM)
    assert made.undisturbed_seconds == 8 * 3600
    spot = Prices(usd_per_hour=0.3328 * 0.3, on_demand_usd_per_hour=0.3328)
    cost = bill(PAPER, made.with_notice, made.undisturbed_seconds, spot)
    assert cost.usd == pytest.approx(4.0, rel=0.005)
    assert cost.attempts_usd == pytest.approx(cost.usd)
    assert cost.fleet_on_demand_usd == pytest.approx(13.4, rel=0.01)
    assert cost.one_machine_usd == pytest.approx(cost.fleet_on_demand_usd)
    assert cost.one_machine_seconds == 40 * 3600
    assert cost.saved_percent == pytest.approx(70)


def test_the_saving_is_that_of_the_study() -> None:
    """1 - rho O_paid, without a server that is always on."""
    long = Work(40, 500, 4, barrier=False, subtask_seconds=100)
    made = forecast(long, Capacity(0.2, 120, 50, 120, 20))
    cost = bill(long, made.without_notice, made.undisturbed_seconds, Prices(0.2, 1.0))
    paid = 1 + 0.25 * (0.5 + 50 / 100)
    assert cost.saved_percent == pytest.approx(100 * (1 - 0.2 * paid), abs=1)
    assert cost.attempts_usd == pytest.approx(long.busy_seconds / 3600 * 0.2 * (1 + 0.25 / 2))


def test_one_machine_needs_fewer_samples_for_the_same_accuracy() -> None:
    made = forecast(PAPER, CALM)
    prices = Prices(0.3, 1.0, extra_samples=4)
    cost = bill(PAPER, made.with_notice, made.undisturbed_seconds, prices)
    assert cost.one_machine_seconds == 10 * 3600
    assert cost.saved_percent == pytest.approx(-20)  # four times the samples at 0.3 of the price


def test_without_a_price_on_demand_nothing_is_compared() -> None:
    made = forecast(PAPER, CALM)
    cost = bill(PAPER, made.with_notice, made.undisturbed_seconds, Prices(0.1))
    assert (cost.fleet_on_demand_usd, cost.one_machine_usd, cost.saved_percent) == (None,) * 3
    assert cost.usd == pytest.approx(4.0)


def test_the_papers_transfers() -> None:
    """21.2 MB each way and a shard of 3.9 MB; 2,000 subtasks move some 42 GB each way."""
    moved = transfers(PAPER, 21_200_000, 3_900_000)
    assert moved == Transfers(
        model_bytes=21_200_000,
        shard_bytes=3_900_000,
        per_subtask_bytes=42_400_000,
        most_per_subtask_bytes=46_300_000,
        job_bytes=84_800_000_000,
    )
    assert transfers(PAPER, 1, None).most_per_subtask_bytes is None
