from collections.abc import Callable

import numpy as np
import pytest

from spotgrad.errors import Malformed, StoreUnavailable
from spotgrad.protocol.control import Control
from spotgrad.protocol.keys import ActiveKey, AttemptKey, ControlKey, ExpiringKey, HeadKey, ModelKey
from spotgrad.steps.audit import audit
from spotgrad.steps.reconcile_job import Reconciled, active_jobs
from tests.builders import JOB, LEASE_SECONDS, Bench, evaluation, names, train, whole
from tests.fakes.faults import Fault
from tests.fakes.store import Write

HEAD = HeadKey(JOB).render()
CONTROL = ControlKey(JOB).render()
HEALTHY = Reconciled()


@pytest.fixture
def bench() -> Bench:
    """Epoch 1 of four shards is out; the messages lie in the queue."""
    made = Bench()
    made.start(4, retries={"interruptions": 2, "max_dead": 1})
    receive_initialize(made)
    return made


def receive_initialize(bench: Bench) -> None:
    """Leave the four training messages alone in the queue."""
    (message,) = bench.queue.receive(most=1, wait_seconds=0)
    bench.queue.delete(message)


def writes(bench: Bench) -> int:
    return bench.store.calls["put"] + bench.store.calls["delete"]


def test_active_jobs_are_those_that_are_marked(bench: Bench) -> None:
    bench.store.put("active/another", b"")
    bench.store.put("active/Not A Job", b"")
    assert active_jobs(bench.store) == ["another", JOB]


def test_a_healthy_job_costs_no_write(bench: Bench) -> None:
    bench.attempt(train(1, 0))
    bench.clock.advance(2 * LEASE_SECONDS)
    bench.attempt(train(1, 1), "returned")
    before, written = bench.store.snapshot(), writes(bench)
    assert bench.reconcile() == HEALTHY
    assert writes(bench) == written
    assert bench.store.snapshot() == before
    assert bench.queue.depth() == 4


def test_a_job_that_is_not_planned_yet_is_left_alone() -> None:
    bench = Bench()
    bench.store.put(ActiveKey(JOB).render(), b"")
    assert bench.reconcile() == HEALTHY
    assert active_jobs(bench.store) == [JOB]


def test_an_ended_job_is_put_away_an_hour_later(bench: Bench) -> None:
    bench.finish()
    bench.clock.advance(3600)
    before = bench.store.snapshot()
    assert bench.reconcile() == Reconciled(ended=True)
    assert bench.store.snapshot() == before
    bench.clock.advance(1)
    assert bench.reconcile() == Reconciled(ended=True)
    assert active_jobs(bench.store) == []
    del before[ActiveKey(JOB).render()]
    assert bench.store.snapshot() == before | {ExpiringKey(JOB).render(): b""}


def test_what_lost_commits_left_goes_with_the_mark(bench: Bench) -> None:
    orphan = ModelKey(JOB, 1, "ee" * 8).render()
    bench.store.put(orphan, b"")
    bench.finish()
    bench.clock.advance(3601)
    assert bench.reconcile() == Reconciled(ended=True, swept=1)
    assert orphan not in bench.store.snapshot()


# --- lost messages ------------------------------------------------------------------------------


def test_lost_messages_are_sent_again_after_a_lease(bench: Bench) -> None:
    bench.drain()
    bench.clock.advance(LEASE_SECONDS)
    assert bench.reconcile() == HEALTHY
    bench.clock.advance(1)
    assert bench.reconcile() == Reconciled(reissued=4)
    assert set(names(bench.drain())) == set(names(whole(1)))
    assert bench.head.outbox == ()
    assert len(bench.head.reissued) == 4


def test_what_was_sent_again_gets_its_time(bench: Bench) -> None:
    bench.drain()
    bench.clock.advance(LEASE_SECONDS + 1)
    bench.reconcile()
    bench.drain()
    bench.clock.advance(LEASE_SECONDS)
    assert bench.reconcile() == HEALTHY
    bench.clock.advance(1)
    assert bench.reconcile() == Reconciled(reissued=4)


def test_a_silent_attempt_is_given_up_after_two_leases(bench: Bench) -> None:
    bench.attempt(train(1, 2))
    bench.clock.advance(2 * LEASE_SECONDS)
    assert bench.reconcile() == HEALTHY
    bench.clock.advance(1)
    assert bench.reconcile() == Reconciled(reissued=1)
    assert names(bench.drain())[-1] == (1, "train-000002")


def test_how_long_subtasks_take_is_learnt_from_those_that_are_done(bench: Bench) -> None:
    """A message may wait an hour in a full queue, or ten times what the done ones took."""
    bench.attempt(train(1, 0), "uploaded", seconds=720)
    bench.aggregate(bench.trained(1, 0))
    bench.clock.advance(7200)
    assert bench.reconcile() == HEALTHY
    bench.clock.advance(1)
    assert bench.reconcile() == Reconciled(reissued=3)


def test_records_that_are_damaged_strange_or_of_another_run_are_no_sign_of_life(
    bench: Bench,
) -> None:
    bench.drain()
    bench.clock.advance(LEASE_SECONDS + 1)
    damaged = AttemptKey(JOB, 1, "train-000000", "ab" * 8).render()
    bench.store.put(damaged, b"{}")
    bench.store.put(f"attempts/{JOB}/000001/notes.txt", b"")
    done = AttemptKey(JOB, 1, "train-000003", "cd" * 8).render()
    bench.aggregate(bench.trained(1, 3))
    bench.store.put(done, b"{}")
    head = bench.head
    bench.tamper(head.model_copy(update={"run": "ee" * 8}))
    bench.attempt(train(1, 1))
    bench.tamper(head)
    assert bench.reconcile() == Reconciled(reissued=3)


def test_a_subtask_whose_workers_vanish_too_often_is_dead(bench: Bench) -> None:
    for _ in range(3):
        bench.attempt(train(1, 2))
        bench.clock.advance(2 * LEASE_SECONDS + 1)
    bench.reconcile()
    (grave,) = bench.head.dead
    assert (grave.subtask, grave.reason) == ("train-000002", "interrupted 3 times")
    head = bench.finish()
    assert (head.state, head.reason) == (
        "DEGRADED",
        "1 dead: train-000002 of epoch 1: interrupted 3 times",
    )


def test_a_death_that_closes_the_epoch_starts_what_follows(bench: Bench) -> None:
    bench.aggregate(*(bench.trained(1, shard) for shard in (0, 1, 3)))
    bench.drain()
    for _ in range(3):
        bench.attempt(train(1, 2))
        bench.clock.advance(2 * LEASE_SECONDS + 1)
    assert bench.reconcile() == Reconciled(reissued=0)
    assert bench.head.epochs[0].epoch == 2
    assert set(names(bench.drain())) == set(names([evaluation(1), *whole(2)]))
    assert audit(bench.store, JOB).findings == ()


def test_a_lost_evaluation_is_sent_again_with_its_version(bench: Bench) -> None:
    bench.aggregate(*(bench.trained(1, shard) for shard in range(4)))
    bench.drain()
    bench.clock.advance(LEASE_SECONDS + 1)
    assert bench.reconcile() == Reconciled(reissued=5)
    sent = {one.subtask: one.model for one in bench.drain()}
    assert sent["evaluate-000000"] == bench.head.evaluations[0].model


def test_a_paused_job_is_not_mended(bench: Bench) -> None:
    bench.tamper(bench.head.model_copy(update={"state": "PAUSED"}))
    bench.drain()
    bench.clock.advance(LEASE_SECONDS + 1)
    assert bench.reconcile() == HEALTHY


# --- outboxes and events ------------------------------------------------------------------------


def test_the_outbox_of_a_sender_that_died_is_sent_after_a_lease(bench: Bench) -> None:
    bench.queue.faults.order(Fault.UNAVAILABLE, operation="send")
    key = bench.trained(1, 0, samples=0)
    with pytest.raises(StoreUnavailable):
        bench.aggregate(key)
    bench.drain()
    bench.clock.advance(LEASE_SECONDS)
    bench.reconcile()
    assert bench.drain() == []
    bench.clock.advance(1)
    bench.reconcile()
    assert names(bench.drain())[0] == (1, "train-000000")
    assert bench.head.outbox == ()


def test_a_result_whose_event_never_came_is_merged(bench: Bench) -> None:
    bench.trained(1, 0, 1.0)
    bench.store.put(f"results/{JOB}/000001/notes.txt", b"")
    bench.clock.advance(LEASE_SECONDS)
    assert bench.reconcile() == HEALTHY
    bench.clock.advance(1)
    assert bench.reconcile() == Reconciled(results_found=1)
    assert (bench.head.version, bench.head.results_merged) == (1, 1)
    assert bench.model().tensors["weight"][0, 0] == np.float32(0.5)
    assert bench.reconcile() == HEALTHY


def test_an_evaluation_whose_event_never_came_is_counted(bench: Bench) -> None:
    bench.aggregate(*(bench.trained(1, shard) for shard in range(4)))
    bench.evaluated(1, accuracy=0.75)
    bench.clock.advance(LEASE_SECONDS + 1)
    assert bench.reconcile().results_found == 1
    assert bench.head.metrics == {"accuracy": 0.75}


def test_results_that_are_counted_refused_or_not_open_are_not_missed(bench: Bench) -> None:
    bench.aggregate(bench.trained(1, 0), bench.trained(1, 1, samples=0))
    bench.trained(1, 0)
    bench.clock.advance(LEASE_SECONDS + 1)
    assert bench.reconcile().results_found == 0


# --- resume -------------------------------------------------------------------------------------


def test_a_new_resume_token_sends_everything_that_is_open_once(bench: Bench) -> None:
    bench.aggregate(bench.trained(1, 0))
    bench.drain()
    bench.store.put(CONTROL, Control(resume="ab" * 8).to_json())
    assert bench.reconcile() == Reconciled(reissued=3)
    assert set(names(bench.drain())) == set(names(whole(1)[1:]))
    assert bench.head.resume_token == "ab" * 8
    assert bench.reconcile() == HEALTHY
    bench.store.put(CONTROL, Control(resume="cd" * 8).to_json())
    assert bench.reconcile() == Reconciled(reissued=3)


def test_a_control_file_without_a_token_asks_for_nothing(bench: Bench) -> None:
    bench.store.put(CONTROL, Control().to_json())
    assert bench.reconcile() == HEALTHY


def test_a_damaged_control_file_is_reported_after_all_else_is_mended(bench: Bench) -> None:
    bench.drain()
    bench.clock.advance(LEASE_SECONDS + 1)
    bench.store.put(CONTROL, b"{")
    with pytest.raises(Malformed, match="control file"):
        bench.reconcile()
    assert len(bench.drain()) == 4


# --- together with others -----------------------------------------------------------------------


def in_between(bench: Bench, action: Callable[[], object]) -> None:
    """Something else happens between this one's decision and its commit."""

    def hook(write: Write) -> None:
        if (write.key, write.moment) == (HEAD, "before"):
            bench.store.on_write = None
            action()

    bench.store.on_write = hook


def test_two_that_reconcile_at_once_send_once(bench: Bench) -> None:
    bench.drain()
    bench.clock.advance(LEASE_SECONDS + 1)
    in_between(bench, bench.reconcile)
    assert bench.reconcile() == HEALTHY
    assert len(bench.drain()) == 4
    assert bench.head.counts.reissued == 4


def test_a_job_that_ends_meanwhile_is_left_alone(bench: Bench) -> None:
    bench.drain()
    bench.clock.advance(LEASE_SECONDS + 1)
    in_between(bench, bench.finish)
    assert bench.reconcile() == HEALTHY
    assert bench.head.state == "SUCCEEDED"


def test_a_job_that_is_gone_meanwhile_is_left_alone(bench: Bench) -> None:
    bench.drain()
    bench.clock.advance(LEASE_SECONDS + 1)
    in_between(bench, lambda: bench.store.delete(HEAD))
    assert bench.reconcile() == HEALTHY
    assert HEAD not in bench.store.snapshot()


def test_an_outage_is_for_the_next_minute(bench: Bench) -> None:
    bench.store.faults.order(Fault.UNAVAILABLE, operation="get", key=HEAD)
    with pytest.raises(StoreUnavailable):
        bench.reconcile()
    assert bench.reconcile() == HEALTHY
