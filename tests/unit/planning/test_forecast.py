import heapq
import random
from collections.abc import Callable

import pytest

from spotgrad.planning.forecast import Capacity, Work, forecast, work_of
from spotgrad.planning.preemption import interruptions
from spotgrad.protocol.job_file import parse_job_file
from tests.builders import job_file

CALM = Capacity(
    preemption=0.0,
    notice_seconds=120,
    boot_seconds=180,
    lease_seconds=120,
    interruptions_allowed=20,
)


def work(shards: int, slots: int, seconds: float, *, epochs: int = 1, barrier: bool = True) -> Work:
    return Work(epochs, shards, slots, barrier, seconds)


def capacity(p: float, *, boot: float = 180, notice: float = 120) -> Capacity:
    return Capacity(p, notice, boot, 120, 20)


def simulated(what: Work, how: Capacity, *, notice: bool, runs: int = 400) -> float:
    """When the last of one epoch's subtasks is done, on average: machines, a queue, a lease."""
    draw = random.Random(5).expovariate  # noqa: S311 - a simulation, not a secret
    rate = interruptions(how.preemption) / what.subtask_seconds
    return sum(_epoch(what, how, lambda: draw(rate), notice=notice) for _ in range(runs)) / runs


def _epoch(what: Work, how: Capacity, preempted: Callable[[], float], *, notice: bool) -> float:
    queue = [(0.0, number, what.subtask_seconds) for number in range(what.shards)]
    machines = [how.boot_seconds] * what.slots
    last = 0.0
    while queue:
        visible, number, left = heapq.heappop(queue)
        free = heapq.heappop(machines)
        start, after = max(free, visible), preempted()
        end = start + left
        if after < left:
            end = start + after + how.boot_seconds
            if notice and left - after <= how.notice_seconds:
                end, last = start + left + how.boot_seconds, max(last, start + left)
            elif notice:
                heapq.heappush(queue, (start + after, number, left - after))
            else:
                again = start + after + how.lease_seconds * 5 / 6
                heapq.heappush(queue, (again, number, what.subtask_seconds))
        else:
            last = max(last, end)
        heapq.heappush(machines, end)
    return last


CASES = [
    work(50, 16, 144),
    work(50, 10, 144),
    work(16, 8, 60),
    work(50, 50, 300),
    work(200, 40, 600),
    work(48, 16, 1200),
]


@pytest.mark.parametrize("case", CASES, ids=lambda one: f"{one.shards}-{one.slots}")
@pytest.mark.parametrize("p", [0.05, 0.2])
def test_an_epoch_takes_what_a_simulation_says(case: Work, p: float) -> None:
    how = capacity(p)
    made = forecast(case, how)
    vanishing = simulated(case, how, notice=False)
    assert made.without_notice.wall_seconds == pytest.approx(vanishing, rel=0.2)
    warned = simulated(case, how, notice=True)
    assert made.with_notice.wall_seconds == pytest.approx(warned, rel=0.2)


def test_the_papers_example_with_its_deadline() -> None:
    """P5C5T2: 2,000 subtasks, 10 at once, 2.4 min; a lease so long that t_o is 5 min."""
    paper = Work(40, 50, 10, barrier=True, subtask_seconds=144)
    lease = (300 - 72) * 6 / 5
    made = forecast(paper, Capacity(0.05, 0, 0, lease, 20))
    assert made.deadline_seconds == pytest.approx(300)
    assert made.undisturbed_seconds == pytest.approx(8 * 3600)
    assert made.paper_seconds == pytest.approx((8 * 60 + 50) * 60)
    assert made.exact_seconds == pytest.approx((8 * 60 + 52.6) * 60, rel=1e-3)
    assert made.without_notice.wall_seconds > made.exact_seconds  # the barrier waits for the last


@pytest.mark.parametrize("barrier", [True, False])
def test_without_preemption_nothing_is_lost(*, barrier: bool) -> None:
    made = forecast(work(16, 4, 10, epochs=3, barrier=barrier), CALM)
    assert made.undisturbed_seconds == 180 + 3 * 4 * 10
    for course in (made.with_notice, made.without_notice):
        assert course.wall_seconds == made.undisturbed_seconds
        assert (course.interruptions, course.lost_seconds, course.dead) == (0, 0, 0)
        assert (course.latency_seconds, course.attempt_seconds) == (10, 480)


def test_a_barrier_waits_for_slots_that_stay_empty() -> None:
    with_barrier = forecast(work(5, 4, 10, epochs=8), CALM)
    rolling = forecast(work(5, 4, 10, epochs=8, barrier=False), CALM)
    assert with_barrier.undisturbed_seconds == 180 + 8 * 2 * 10
    assert rolling.undisturbed_seconds == 180 + 10 * 10


def test_every_epoch_is_turned_round() -> None:
    slow = Work(3, 4, 4, barrier=True, subtask_seconds=10, turnaround_seconds=2)
    assert forecast(slow, CALM).undisturbed_seconds == 180 + 3 * 12


def test_a_subtask_that_fits_the_notice_is_never_handed_over() -> None:
    course = forecast(work(16, 4, 100), capacity(0.2)).with_notice
    assert course.latency_seconds == 100
    assert course.interruptions == pytest.approx(16 * interruptions(0.2))
    handed = forecast(work(16, 4, 240), capacity(0.2)).with_notice
    assert handed.latency_seconds == pytest.approx(240 + interruptions(0.2) / 2 * 180)


def test_a_subtasks_latency_by_what_becomes_of_a_preempted_run() -> None:
    found = forecast(work(16, 4, 240), capacity(0.2)).latencies
    assert found.found_late_seconds == pytest.approx(240 + 0.25 * (120 + 100))
    assert found.given_back_seconds == pytest.approx(240 + 0.25 * 120)
    assert found.drained_seconds == pytest.approx(240 + 60 * 0.1 / 0.9)
    assert found.resumed_seconds == pytest.approx(240 + interruptions(0.2) * 180)


def test_what_vanishes_is_done_twice_and_may_be_given_up() -> None:
    course = forecast(work(16, 4, 100), Capacity(0.5, 120, 0, 120, 2)).without_notice
    assert course.lost_seconds == pytest.approx(16 * 1 * 50)
    assert course.attempt_seconds == pytest.approx(1600 + 800)
    assert course.dead == pytest.approx(16 * 0.5**3)


def test_machines_that_start_slowly_hold_a_long_job_up() -> None:
    """The study's share of machine time that is paid: 1 + p / (1 - p) (1/2 + boot / t_e)."""
    long = work(1000, 4, 100, barrier=False)
    how = capacity(0.2, boot=50)
    wall = forecast(long, how).without_notice.wall_seconds
    paid = 1 + 0.25 * (0.5 + 50 / 100)
    assert wall == pytest.approx(1000 / 4 * 100 * paid, rel=0.05)


def test_a_job_of_any_length_is_foreseen_at_once() -> None:
    endless = Work(999_999, 900_000, 2, barrier=False, subtask_seconds=0.001)
    made = forecast(endless, capacity(0.9, boot=0))
    assert made.with_notice.wall_seconds == pytest.approx(endless.busy_seconds / 2, rel=1e-6)


@pytest.mark.parametrize(
    ("fields", "slots", "barrier"),
    [
        ({"workers": {"max": 8}}, 8, True),
        ({"workers": {"max": 8}, "schedule": {"max_in_flight": 3}}, 3, True),
        (
            {"workers": {"max": 99}, "schedule": {"issue": "rolling", "max_in_flight": 99}},
            16,
            False,
        ),
    ],
)
def test_the_work_of_a_job(fields: dict[str, object], slots: int, *, barrier: bool) -> None:
    spec = parse_job_file(job_file(epochs=5, **fields))
    assert work_of(spec, 16, 2.0, 1.0) == Work(5, 16, slots, barrier, 2.0, 1.0)
