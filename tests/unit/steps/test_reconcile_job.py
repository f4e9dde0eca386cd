from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from spotgrad.errors import Malformed, StoreUnavailable
from spotgrad.protocol.control import Control
from spotgrad.protocol.keys import (
    ActiveKey,
    AttemptKey,
    ControlKey,
    ExpiringKey,
    HeadKey,
    ModelKey,
    ReceiptKey,
)
from spotgrad.steps.audit import audit
from spotgrad.steps.read_status import read_status
from spotgrad.steps.reconcile_job import Reconciled, active_jobs, expiring_jobs
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


# --- stragglers, budgets, standstills ------------------------------------------------------------


def slow_tail() -> Bench:
    """Six shards: five took 100 s each and are merged, the last is still at work after 300 s."""
    bench = Bench()
    bench.start(6)
    bench.drain()
    bench.clock.advance(100)
    for shard in range(5):
        bench.attempt(train(1, shard), "uploaded", seconds=100)
        bench.aggregate(bench.trained(1, shard))
    bench.clock.advance(200)
    bench.attempt(train(1, 5), seconds=300)
    return bench


def test_a_straggler_goes_out_a_second_time_and_once() -> None:
    bench = slow_tail()
    assert bench.reconcile() == Reconciled(reissued=1)
    assert names(bench.drain()) == [(1, "train-000005")]
    assert bench.head.counts.speculative == 1
    bench.attempt(train(1, 5), seconds=300)
    assert bench.reconcile() == HEALTHY


def test_the_first_result_of_a_straggler_wins() -> None:
    bench = slow_tail()
    bench.reconcile()
    original, copy = bench.trained(1, 5, 1.0), bench.trained(1, 5, 9.0)
    bench.aggregate(copy)
    merged = bench.model()
    bench.aggregate(original)
    assert bench.head.results_merged == 6
    assert bench.model().tensors["weight"].tolist() == merged.tensors["weight"].tolist()
    assert audit(bench.store, JOB).findings == ()


def test_a_tail_that_is_not_slow_costs_no_write() -> None:
    bench = slow_tail()
    bench.attempt(train(1, 5), seconds=5)  # begun again: this one is quick
    written = writes(bench)
    assert bench.reconcile() == HEALTHY
    assert writes(bench) == written


def priced(**fields: Any) -> Bench:
    bench = Bench()
    bench.start(4, workers={"usd_per_hour": 3.6}, **fields)
    return bench


def test_a_job_within_its_budget_writes_its_receipt_alone() -> None:
    bench = priced(budget={"max_usd": 1, "deadline": "6h"})
    bench.clock.advance(100)
    bench.attempt(train(1, 0), seconds=100)
    before = bench.store.snapshot()
    assert bench.reconcile() == HEALTHY
    after = bench.store.snapshot()
    assert set(after) - set(before) == {ReceiptKey(JOB).render()}
    written = writes(bench)
    assert bench.reconcile() == HEALTHY
    assert writes(bench) == written
    assert read_status(bench.store, JOB, bench.clock.now()).cost.usd == pytest.approx(0.1)


def test_a_job_that_spent_its_budget_ends_with_its_last_version() -> None:
    bench = priced(budget={"max_usd": 0.25})
    bench.aggregate(bench.trained(1, 0))
    bench.clock.advance(300)
    bench.attempt(train(1, 1), seconds=300)
    late = bench.trained(1, 1)
    bench.reconcile()
    head = bench.head
    assert (head.state, head.reason) == (
        "DEGRADED",
        "budget of 0.25 USD reached (0.3 spent)",
    )
    assert (head.final, head.outbox) == (head.model, ())
    bench.aggregate(late)
    assert bench.head == head
    assert audit(bench.store, JOB).findings == ()
    bench.reconcile()
    assert bench.head == head


def test_a_deadline_needs_no_price() -> None:
    bench = Bench()
    bench.start(4, budget={"deadline": "10m"})
    bench.clock.advance(599)
    bench.attempt(train(1, 0))
    bench.reconcile()
    assert bench.head.state == "RUNNING"
    bench.clock.advance(1)
    in_between(bench, bench.reconcile)
    bench.reconcile()
    assert (bench.head.state, bench.head.reason) == ("DEGRADED", "deadline of 10m reached")


def test_an_ended_job_gets_its_last_receipt() -> None:
    bench = priced()
    bench.clock.advance(100)
    bench.attempt(train(1, 0), seconds=50)
    bench.finish()
    bench.attempt(train(1, 0), "dropped", seconds=50)
    assert bench.reconcile() == Reconciled(ended=True)
    assert read_status(bench.store, JOB, bench.clock.now()).cost.usd == pytest.approx(0.1)


def test_a_job_without_workers_says_so_once_until_it_gets_on(bench: Bench) -> None:
    bench.clock.advance(10 * LEASE_SECONDS + 1)
    assert bench.reconcile() == HEALTHY
    reason = bench.head.reason
    assert bench.head.state == "RUNNING"
    assert reason is not None
    assert "no worker has begun anything, though messages wait" in reason
    bench.clock.advance(60)
    written = writes(bench)
    bench.reconcile()
    assert writes(bench) == written
    bench.aggregate(bench.trained(1, 0))
    assert bench.head.reason is None
    bench.clock.advance(60)
    bench.reconcile()
    assert bench.head.reason is None


# --- once an hour -------------------------------------------------------------------------------


def test_a_running_job_is_tidied_on_the_hour(bench: Bench) -> None:
    orphan = ModelKey(JOB, 9, "ee" * 8).render()
    bench.store.put(orphan, b"")
    bench.clock.advance(2 * 3600 - 1)
    assert bench.reconcile().swept == 0
    bench.clock.advance(1)
    assert bench.reconcile().swept == 1
    assert orphan not in bench.store.snapshot()
    assert bench.reconcile().swept == 0


def test_the_results_of_an_ended_job_expire_by_its_job_file() -> None:
    bench = Bench()
    bench.start(2, keep={"results_days": 3})
    bench.finish()
    bench.clock.advance(3601)
    bench.reconcile()
    midnight = 86_400 - 3601
    bench.clock.advance(midnight)
    assert expiring_jobs(bench.store, bench.clock.now()) == [JOB]
    before = bench.store.snapshot()
    assert bench.reconcile() == Reconciled(ended=True)
    assert bench.store.snapshot() == before
    bench.clock.advance(3 * 86_400)
    done = bench.reconcile()
    left = bench.store.snapshot()
    assert done.swept == len(before) - len(left) - 1
    assert not [key for key in left if key.startswith(("results/", "attempts/", "expiring/"))]
    assert [key for key in left if key.startswith("models/")]
    assert expiring_jobs(bench.store, bench.clock.now()) == []


@pytest.mark.parametrize(("seconds", "visited"), [(0, True), (60, False), (3600, False)])
def test_ended_jobs_are_visited_once_a_day(seconds: int, *, visited: bool) -> None:
    bench = Bench()
    bench.store.put(ExpiringKey(JOB).render(), b"")
    bench.clock.advance(seconds)
    assert (expiring_jobs(bench.store, bench.clock.now()) == [JOB]) is visited


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


def test_a_round_past_its_deadline_is_closed_without_a_result() -> None:
    bench = Bench()
    bench.start(2, merge={"rule": "fedavg", "deadline": "90s", "quorum": 0.5})
    bench.drain()
    bench.aggregate(bench.trained(1, 0))
    bench.reconcile()
    assert (bench.head.version, bench.head.epochs[0].epoch) == (0, 1)
    bench.clock.advance(91)
    bench.reconcile()
    assert (bench.head.version, bench.head.epochs[0].epoch) == (1, 2)
    assert bench.head.counts.dropped == 1
    assert audit(bench.store, JOB).findings == ()
