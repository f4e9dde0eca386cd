from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotgrad.planning.fleet import FleetView
from spotgrad.planning.fold import Mishap, bury, count_mishap
from spotgrad.planning.leases import Sighting, Sky
from spotgrad.planning.stuck import diagnose, landmarks
from spotgrad.protocol.attempt import AttemptOutcome
from spotgrad.protocol.head import Head
from tests.builders import begun, done, evaluation, job_plan, train, whole
from tests.fakes.clock import START

LEASE = 120
PLAN = job_plan()
SINCE = "no progress since 2030-01-01 00:00:00 UTC: "


def seen(at: float, outcome: AttemptOutcome | None = None, *, lasted: float = 0) -> Sighting:
    return Sighting(START + timedelta(seconds=at), outcome, timedelta(seconds=lasted))


def sky(now: float, *attempts: Sighting, depth: int = 4) -> Sky:
    sightings: dict[tuple[int, str], Sequence[Sighting]] = {(1, "train-000002"): attempts}
    return Sky(sightings, (), depth, LEASE, START + timedelta(seconds=now))


MACHINES = FleetView(coming=4, waiting_since=START + timedelta(seconds=30), obstacle="no quota")
NO_MACHINE = (
    f"{SINCE}no worker has begun anything, though messages wait: "
    "workers wait for a machine since 2030-01-01 00:00:30 UTC: "
)


def of_fleet(now: float, fleet: FleetView, *attempts: Sighting) -> str | None:
    return diagnose(head(), replace(sky(now, *attempts), fleet=fleet)).reason


def test_a_machine_that_does_not_come_is_told_sooner_and_with_its_cause() -> None:
    assert of_fleet(630, MACHINES) is None
    assert of_fleet(631, MACHINES) == f"{NO_MACHINE}no quota"
    said = of_fleet(631, replace(MACHINES, obstacle=None))
    assert said is not None
    assert said.startswith(f"{NO_MACHINE}nobody says why; mostly the Spot vCPU quota")


def test_a_worker_that_has_begun_or_does_begin_is_no_lack_of_machines() -> None:
    assert of_fleet(1200, replace(MACHINES, running=1)) is None
    assert of_fleet(1201, replace(MACHINES, running=1)) == (
        f"{SINCE}no worker has begun anything, though messages wait: "
        "workers are there, but all serve other jobs or are still starting"
    )
    assert of_fleet(700, MACHINES, seen(600, lasted=10)) is None


def test_a_fleet_of_none_says_how_the_last_one_ended() -> None:
    begun_by_nobody = f"{SINCE}no worker has begun anything, though messages wait: "
    assert of_fleet(1201, FleetView(mishap="exit code 65")) == (
        f"{begun_by_nobody}no worker is alive, and the last one failed: exit code 65"
    )
    assert of_fleet(1201, FleetView(obstacle="workers.gpu: 2")) == (
        f"{begun_by_nobody}no worker is started: workers.gpu: 2"
    )
    assert of_fleet(1201, FleetView()) == (
        f"{begun_by_nobody}no worker is alive: they are being started"
    )


def head(**changes: Any) -> Head:
    return begun(PLAN).model_copy(update=changes)


def reason(now: float, *attempts: Sighting, depth: int = 4, **changes: Any) -> str | None:
    return diagnose(head(**changes), sky(now, *attempts, depth=depth)).reason


def test_ten_leases_pass_before_anything_is_said() -> None:
    assert reason(1200) is None
    assert reason(1201) is not None


def test_a_job_that_nobody_begins_says_so() -> None:
    assert reason(1201) == (
        f"{SINCE}no worker has begun anything, though messages wait: "
        "no worker is running, or all serve other jobs"
    )
    assert reason(1201, depth=0) == (
        f"{SINCE}no worker has begun anything, and the queue is empty: "
        "what is open is being sent again"
    )


def test_workers_that_were_there_and_left() -> None:
    assert reason(3000, seen(1799, "returned")) == (
        f"{SINCE}no worker has begun anything after 2030-01-01 00:29:59 UTC, though messages "
        "wait: no worker is running, or all serve other jobs"
    )


def test_the_time_of_the_last_progress_counts() -> None:
    later = START + timedelta(seconds=600)
    assert reason(1800, progressed_at=later) is None
    said = reason(1801, seen(500), progressed_at=later)
    assert said is not None
    assert said.startswith("no progress since 2030-01-01 00:10:00 UTC: no worker has begun")


def test_a_long_subtask_is_no_standstill() -> None:
    assert reason(90_000, seen(89_990, lasted=89_000)) is None


def test_two_interruptions_are_bad_luck() -> None:
    assert reason(2000, seen(500), seen(1000), seen(1990)) is None


VANISHED = (seen(300, lasted=40), seen(700, lasted=80), seen(1200, lasted=80))
VANISH = f"{SINCE}attempts begin but none ends: their workers vanish or give the work back"


def test_workers_that_vanish_again_and_again() -> None:
    assert reason(1500, *VANISHED) == VANISH
    assert reason(1500, *VANISHED[:2], seen(1200, "returned", lasted=60)) == VANISH
    assert reason(1500, *VANISHED, seen(1490, lasted=40)) == VANISH


def test_an_attempt_that_outlasts_those_that_vanished_is_hope() -> None:
    assert reason(1500, *VANISHED, seen(1490, lasted=120)) is None


FAILED = (seen(500, "failed"), seen(900, "failed"), seen(1300, "uploaded"))


def test_attempts_that_only_fail_name_the_last_mishap() -> None:
    mishap = Mishap("failed", "ab" * 8, "ValueError: boom", "key", START)
    failing = count_mishap(head(), PLAN, train(1, 2), mishap)
    assert diagnose(failing, sky(1500, *FAILED)).reason == (
        f"{SINCE}attempts come to nothing, the last: "
        "train-000002 of epoch 1 failed: ValueError: boom"
    )
    assert reason(1500, *FAILED) == (
        f"{SINCE}attempts come to nothing, the last: its result is missing"
    )


def test_most_of_what_came_to_nothing_is_the_cause() -> None:
    assert reason(1500, *VANISHED, *FAILED[1:]) == VANISH
    assert reason(1500, *VANISHED[:1], *FAILED) != VANISH


def test_the_reason_is_said_once_and_goes_away() -> None:
    stuck = diagnose(head(), sky(1300))
    assert diagnose(stuck, sky(9000)) == stuck
    moved = stuck.model_copy(update={"progressed_at": START + timedelta(seconds=1400)})
    assert diagnose(moved, sky(1500)).reason is None


@pytest.mark.parametrize("state", ["PAUSED", "FAILED"])
def test_a_job_that_does_not_run_is_not_diagnosed(state: str) -> None:
    still = head(state=state, reason="as it was")
    assert diagnose(still, sky(90_000)) == still


@given(
    ages=st.lists(st.floats(0, 1e6), max_size=9),
    ahead=st.floats(0.001, 1e6),
    now=st.floats(0, 1e7),
)
def test_a_job_in_which_an_attempt_gets_further_is_never_stuck(
    ages: list[float], ahead: float, now: float
) -> None:
    fallen = [seen(max(0, now - 1000), "lease-lost", lasted=age) for age in ages]
    best = seen(now, lasted=max(ages, default=0) + ahead)
    assert reason(now, *fallen, best) is None


def test_landmarks_change_with_all_that_gets_a_job_on() -> None:
    before = head()
    assert landmarks(before) == landmarks(before.model_copy(update={"revision": 7, "norms": (1,)}))
    merged = done(before, PLAN, train(1, 0))
    closed = done(before, PLAN, *whole(1))
    moves = [
        merged,
        closed,
        done(closed, PLAN, evaluation(1)),
        bury(before, train(1, 0), "boom", None),
        before.model_copy(update={"state": "PAUSED"}),
        before.model_copy(update={"resume_token": "ab" * 8}),
        before.model_copy(update={"redrive_token": "ab" * 8}),
    ]
    assert len({landmarks(one) for one in (before, *moves)}) == len(moves) + 1
