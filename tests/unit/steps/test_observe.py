from datetime import timedelta

import pytest

from spotgrad.planning.fleet import FleetView
from spotgrad.planning.leases import Sky
from spotgrad.protocol.keys import AttemptKey
from spotgrad.steps.observe import DURATIONS_READ, observe
from tests.builders import JOB, LEASE_SECONDS, Bench, evaluation, train
from tests.fakes.clock import START
from tests.fakes.faults import Fault
from tests.fakes.fleet import FakeFleet


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.start(4)
    made.drain()
    return made


def look(bench: Bench) -> Sky:
    return observe(bench.world, bench.queue, LEASE_SECONDS, bench.head)


def test_attempts_at_open_subtasks_are_seen_with_their_age(bench: Bench) -> None:
    bench.clock.advance(600)
    bench.attempt(train(1, 0), seconds=45)
    bench.clock.advance(30)
    sky = look(bench)
    (seen,) = sky.of(train(1, 0))
    assert seen.seen_at == START + timedelta(seconds=600)
    assert seen.began_at == START + timedelta(seconds=555)
    assert (seen.outcome, sky.queue_depth, sky.durations_seconds) == (None, 0, ())
    assert sky.now == START + timedelta(seconds=630)
    assert sky.of(train(1, 1)) == ()


def test_durations_are_those_of_attempts_that_came_to_a_result(bench: Bench) -> None:
    bench.attempt(train(1, 0), "uploaded", seconds=30)
    bench.attempt(train(1, 0), "returned", seconds=7)
    bench.attempt(train(1, 0), "failed", seconds=8)
    bench.attempt(train(1, 0), seconds=9)
    bench.attempt(train(1, 1), "uploaded", seconds=99)
    bench.aggregate(bench.trained(1, 0))
    assert look(bench).durations_seconds == ()
    bench.attempt(train(1, 2), seconds=LEASE_SECONDS)
    assert look(bench).durations_seconds == ()
    bench.attempt(train(1, 3), seconds=LEASE_SECONDS + 1)
    assert look(bench).durations_seconds == [30]


def test_durations_are_read_when_something_waits_for_an_hour(bench: Bench) -> None:
    bench.attempt(train(1, 0), "uploaded", seconds=30)
    bench.aggregate(bench.trained(1, 0))
    bench.clock.advance(3600)
    assert look(bench).durations_seconds == ()
    bench.clock.advance(1)
    assert look(bench).durations_seconds == [30]


def test_an_evaluation_says_nothing_about_how_long_training_takes(bench: Bench) -> None:
    bench.aggregate(*(bench.trained(1, shard) for shard in range(4)))
    bench.attempt(evaluation(1), "uploaded", seconds=5)
    bench.aggregate(bench.evaluated(1))
    bench.attempt(train(2, 0), "uploaded", seconds=50)
    bench.aggregate(bench.trained(2, 0))
    bench.attempt(evaluation(2), "uploaded", seconds=5)
    bench.clock.advance(3601)
    assert look(bench).durations_seconds == [50]


def test_records_that_are_damaged_or_of_another_run_are_not_seen(bench: Bench) -> None:
    bench.store.put(AttemptKey(JOB, 1, "train-000000", "ab" * 8).render(), b"{}")
    head = bench.head
    bench.tamper(head.model_copy(update={"run": "ee" * 8}))
    bench.attempt(train(1, 0))
    bench.tamper(head)
    assert look(bench).of(train(1, 0)) == []


def test_no_more_than_a_few_finished_attempts_are_read(bench: Bench) -> None:
    for number in range(DURATIONS_READ + 5):
        bench.attempt(train(1, 0), "uploaded", seconds=number)
    bench.aggregate(bench.trained(1, 0))
    bench.clock.advance(3601)
    head = bench.head
    gets = bench.store.calls["get"]
    sky = observe(bench.world, bench.queue, LEASE_SECONDS, head)
    assert len(sky.durations_seconds) == DURATIONS_READ == bench.store.calls["get"] - gets


def test_the_fleet_is_looked_at_only_where_messages_wait_and_nobody_works(bench: Bench) -> None:
    fleet = FakeFleet(bench.clock)
    fleet.start(2)

    def view() -> FleetView | None:
        return observe(bench.world, bench.queue, LEASE_SECONDS, bench.head, [fleet]).fleet

    assert view() is None
    bench.queue.send(["waits"])
    assert view() == FleetView(coming=2, waiting_since=START)
    bench.attempt(train(1, 0))
    assert view() is None
    assert fleet.calls["look"] == 1


def test_a_fleet_that_cannot_be_seen_stops_nothing(bench: Bench) -> None:
    fleet = FakeFleet(bench.clock)
    fleet.faults.order(Fault.UNAVAILABLE, operation="look")
    bench.queue.send(["waits"])
    assert observe(bench.world, bench.queue, LEASE_SECONDS, bench.head, [fleet]).fleet is None


def test_a_job_that_no_fleet_serves_any_more_is_told_why() -> None:
    bench = Bench()
    bench.start(4, workers={"gpu": 1})
    bench.queue.send(["waits"])
    fleet = FakeFleet(bench.clock)
    seen = observe(bench.world, bench.queue, LEASE_SECONDS, bench.head, [fleet]).fleet
    assert seen is not None
    assert (seen.alive, fleet.calls["look"]) == (0, 0)
    assert str(seen.obstacle).startswith("workers.gpu: 1, but a worker of this fleet has 0;")
