from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotgrad.planning.fleet import (
    LONGEST_PAUSE,
    MOST_AT_ONCE,
    SETTLING,
    FleetView,
    Start,
    news_of,
    next_start,
    workers_for,
)
from spotgrad.protocol.muster import Muster
from tests.builders import begun, done, job_plan, planned_head, whole
from tests.fakes.clock import START

SECOND = timedelta(seconds=1)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def muster(seconds: float, workers: int, in_vain: int = 0) -> Muster:
    return Muster(at=at(seconds), workers=workers, in_vain=in_vain)


def more(*arguments: Any) -> int:
    start = next_start(*arguments)
    return 0 if start is None else start.more


def test_a_job_wants_a_worker_for_each_open_subtask_up_to_its_maximum() -> None:
    plan = job_plan(workers={"max": 3})
    assert workers_for(planned_head(plan), plan) == 1
    head = begun(plan)
    assert workers_for(head, plan) == 3
    assert workers_for(done(head, plan, *whole(1)[:2]), plan) == 2


def test_what_may_not_go_out_yet_wants_no_worker() -> None:
    plan = job_plan(schedule={"max_in_flight": 2})
    assert workers_for(begun(plan), plan) == 2


@pytest.mark.parametrize("state", ["PAUSED", "SUCCEEDED", "DEGRADED", "FAILED", "CANCELLED"])
def test_a_job_that_rests_wants_none(state: str) -> None:
    plan = job_plan()
    assert workers_for(begun(plan).model_copy(update={"state": state}), plan) == 0


def test_the_news_is_when_a_job_last_got_on_or_began() -> None:
    head = begun(job_plan())
    later = head.model_copy(update={"progressed_at": at(60)})
    assert news_of([]) is None
    assert news_of([head]) == START
    assert news_of([later, head]) == at(60)


def test_what_is_missing_is_started() -> None:
    assert next_start(5, 2, None, START, at(0)) == Start(3, muster(0, 5))
    assert next_start(5, 5, None, START, at(0)) is None
    assert next_start(5, 9, None, START, at(0)) is None


def test_a_start_counts_before_it_is_listed() -> None:
    last = muster(0, 4)
    assert next_start(4, 0, last, at(1), at(29)) is None
    assert next_start(6, 0, last, at(1), at(29)) == Start(2, muster(29, 6))
    assert next_start(4, 0, last, at(1), at(30)) == Start(4, muster(30, 4))


def test_workers_that_achieve_nothing_come_further_and_further_apart() -> None:
    now, last = 0, muster(0, 4)
    gaps: list[int] = []
    while len(gaps) < 8:
        now += 60
        start = next_start(4, 0, last, at(-1), at(now))
        if start is not None:
            gaps.append((start.muster.at - last.at) // timedelta(minutes=1))
            last = start.muster
    assert gaps == [1, 2, 4, 8, 16, 32, 32, 32]
    assert timedelta(minutes=32) == LONGEST_PAUSE


def test_nothing_is_in_vain_once_a_job_gets_on() -> None:
    last = muster(0, 4, in_vain=9)
    assert next_start(4, 0, last, at(0), at(1000)) is None
    assert next_start(4, 0, last, at(1), at(1000)) == Start(4, muster(1000, 4))


def test_workers_that_lasted_were_not_in_vain_though_no_subtask_ended() -> None:
    lasted = next_start(4, 3, muster(0, 4, in_vain=2), at(-1), at(15 * 60))
    assert lasted == Start(1, muster(900, 4, in_vain=0))
    hardly = next_start(4, 3, muster(0, 4, in_vain=3), at(-1), at(15 * 60))
    assert hardly == Start(1, muster(900, 4, in_vain=4))
    late = next_start(4, 3, muster(0, 4, in_vain=9), at(-1), at(64 * 60))
    assert late == Start(1, muster(64 * 60, 4, in_vain=0))


def test_a_fleet_that_is_whole_grows_without_a_pause() -> None:
    last = muster(0, 2, in_vain=9)
    assert next_start(5, 2, last, at(-1), at(31)) == Start(3, muster(31, 5))


def test_a_large_fleet_is_started_in_parts() -> None:
    first = next_start(250, 0, None, START, at(0))
    assert first == Start(MOST_AT_ONCE, muster(0, 100))
    second = next_start(250, 100, first.muster, START, at(60))
    assert second == Start(MOST_AT_ONCE, muster(60, 200))
    assert more(250, 200, second.muster, START, at(120)) == 50


def test_a_pause_has_an_end_however_often_it_was_in_vain() -> None:
    last = muster(0, 1, in_vain=10_000)
    assert more(1, 0, last, None, START + LONGEST_PAUSE - SECOND) == 0
    assert more(1, 0, last, None, START + LONGEST_PAUSE) == 1


@given(
    wanted=st.integers(0, 300),
    alive=st.integers(0, 300),
    workers=st.integers(0, 300),
    in_vain=st.integers(0, 20),
    age=st.integers(0, 10_000),
    news=st.none() | st.integers(-100, 10_000),
)
def test_there_are_never_more_than_wanted(
    wanted: int, alive: int, workers: int, in_vain: int, age: int, news: int | None
) -> None:
    last = muster(0, workers, in_vain)
    start = next_start(wanted, alive, last, None if news is None else at(news), at(age))
    if start is not None:
        assert 0 < start.more <= MOST_AT_ONCE
        assert alive + start.more <= start.muster.workers <= wanted
        twin = next_start(wanted, alive, start.muster, at(age), at(age) + SETTLING - SECOND)
        assert alive + start.more + (0 if twin is None else twin.more) <= wanted


def test_a_view_counts_those_that_come() -> None:
    assert FleetView().alive == 0
    assert FleetView(running=2, coming=3).alive == 5
