import math
import random
from itertools import count

import pytest

from spotgrad.planning.preemption import (
    interruptions,
    job_by_the_paper,
    job_exactly,
    last_done,
    latency_by_deadline,
    latency_drained,
    latency_given_back,
    latency_resumed,
    lost_runs,
    unfinished,
)

MINUTE = 60.0


def test_the_papers_example() -> None:
    """2,000 subtasks of 2.4 min on 10 slots, a deadline of 5 min: + 50 and + 200 min on 8 h."""
    example = {"sequential": 2000 / (5 * 2), "t_e": 2.4 * MINUTE, "t_o": 5 * MINUTE}
    assert job_by_the_paper(p=0, **example) == pytest.approx(480 * MINUTE)
    assert job_by_the_paper(p=0.05, **example) == pytest.approx((480 + 50) * MINUTE)
    assert job_by_the_paper(p=0.2, **example) == pytest.approx((480 + 200) * MINUTE)
    assert job_exactly(p=0, **example) == pytest.approx(480 * MINUTE)
    assert job_exactly(p=0.05, **example) == pytest.approx((480 + 52.6) * MINUTE, rel=1e-3)
    assert job_exactly(p=0.2, **example) == pytest.approx((480 + 250) * MINUTE)


def test_without_preemption_every_latency_is_that_of_a_run() -> None:
    assert latency_by_deadline(100, 0, 300) == 100
    assert latency_given_back(100, 0) == 100
    assert latency_drained(300, 0, 120) == 300
    assert latency_resumed(100, 0, 30) == 100


def test_a_run_shorter_than_the_notice_is_never_lost() -> None:
    assert unfinished(100, 120) == 0
    assert latency_drained(100, 0.5, 120) == 100
    assert unfinished(480, 120) == 0.75


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - a simulation, not a secret


def simulated(p: float, lost: float, runs: int = 40_000) -> float:
    """The mean time until a run of length 1 is not cut off; each that is takes ``lost``."""
    draw = seeded(7).random
    total = 0.0
    for _ in range(runs):
        total += 1.0
        while draw() < p:
            total += lost
    return total / runs


@pytest.mark.parametrize("p", [0.05, 0.2, 0.4])
def test_latencies_are_those_of_a_simulation(p: float) -> None:
    assert latency_by_deadline(1, p, 2.1) == pytest.approx(simulated(p, 2.1), rel=0.015)
    assert latency_given_back(1, p) == pytest.approx(simulated(p, 0.5), rel=0.015)
    cut = p * unfinished(1, 0.25)
    assert latency_drained(1, p, 0.25) == pytest.approx(simulated(cut, 0.375), rel=0.015)


@pytest.mark.parametrize("p", [0.05, 0.4])
def test_checkpoints_lose_half_an_interval_at_each_preemption(p: float) -> None:
    draw = seeded(3)
    total, runs, every, restore = 0.0, 20_000, 0.02, 0.1
    for _ in range(runs):
        done = 0.0
        while True:
            until = draw.expovariate(interruptions(p))
            if done + until >= 1:
                total += 1 - done
                break
            saved = math.floor((done + until) / every) * every
            total += until + restore
            done = saved
    assert latency_resumed(1, p, restore, every) == pytest.approx(total / runs, rel=0.015)


def test_what_is_lost_and_how_often() -> None:
    assert lost_runs(0.2) == pytest.approx(0.25)
    assert interruptions(0.2) == pytest.approx(math.log(1.25))


@pytest.mark.parametrize("p", [0.05, 0.3])
def test_the_last_of_many_is_done_when_a_simulation_says(p: float) -> None:
    starts, delay = [(0.0, 16), (1.0, 16), (2.0, 16), (3.0, 2)], 1.4
    draw = seeded(11).random
    ends, rounds = 0.0, 3000
    for _ in range(rounds):
        ends += max(
            begin + 1 + delay * next(times for times in count() if draw() >= p)
            for begin, many in starts
            for _ in range(many)
        )
    assert last_done(starts, 1, p, delay) == pytest.approx(ends / rounds, rel=0.015)


def test_without_losses_the_last_is_done_a_run_after_it_began() -> None:
    starts = [(0.0, 2), (5.0, 1)]
    assert last_done(starts, 3, 0, 10) == 8
    assert last_done(starts, 3, 0.5, 0) == 8


def test_what_was_done_long_before_does_not_matter() -> None:
    late = [(1e6, 4)]
    assert last_done([(0.0, 1000), *late], 1, 0.1, 1) == pytest.approx(last_done(late, 1, 0.1, 1))
