from collections.abc import Callable
from typing import Any

import pytest

from spotgrad.errors import Malformed, Retry
from spotgrad.planning.standing import open_items
from spotgrad.protocol.control import Control, Redrive
from spotgrad.protocol.head import Head, WorkItem
from spotgrad.protocol.keys import ActiveKey, ControlKey, HeadKey
from spotgrad.protocol.subtask import Subtask
from spotgrad.steps.audit import audit
from spotgrad.steps.chain import walk_back
from spotgrad.steps.control_job import Controlled, control_job
from spotgrad.steps.reconcile_job import active_jobs
from tests.builders import JOB, LEASE_SECONDS, Bench, evaluation, item, names, train, whole
from tests.fakes.faults import Crashed
from tests.fakes.store import Write, crash_at

HEAD = HeadKey(JOB).render()
ACTIVE = ActiveKey(JOB).render()
TOKEN = "ab" * 8
HOUR_SECONDS = 3600


@pytest.fixture
def bench() -> Bench:
    """Epoch 1 of four shards is out."""
    made = Bench()
    made.start(4, retries={"failures": 1, "max_dead": 4})
    made.drain()
    return made


def wish(bench: Bench, **content: Any) -> Controlled:
    """The user uploads a control file, and its event comes."""
    bench.store.put(ControlKey(JOB).render(), Control(**content).to_json())
    return control_job(bench.world, JOB)


def redrive(bench: Bench, *items: WorkItem, token: str = TOKEN) -> Controlled:
    return wish(bench, redrive=Redrive(token=token, subtasks=items))


def kill(bench: Bench, *items: WorkItem) -> Head:
    """The user's code raises in each attempt at these."""
    for one in items:
        bench.aggregate(bench.failed(one))
        bench.aggregate(bench.failed(one))
    return bench.head


def finish_without(bench: Bench, *poison: WorkItem) -> Head:
    """Work until the job has ended; these always fail."""
    while not bench.head.ended:
        one = next(iter(open_items(bench.head)))
        bench.aggregate(bench.failed(one) if one in poison else bench.work(one))
        assert audit(bench.store, JOB).findings == ()
    bench.drain()
    return bench.head


def clean(bench: Bench) -> bool:
    return audit(bench.store, JOB).findings == ()


# --- wishes -------------------------------------------------------------------------------------


def test_no_wish_and_no_plan_are_no_work(bench: Bench) -> None:
    assert control_job(bench.world, JOB) == Controlled()
    empty = Bench()
    assert wish(empty, want="cancel") == Controlled()
    assert HEAD not in empty.store.snapshot()


def test_pause_and_resume(bench: Bench) -> None:
    assert wish(bench, want="pause") == Controlled("PAUSED", changed=True)
    assert bench.aggregate(bench.trained(1, 0)).merged == 1
    assert (bench.head.state, bench.drain()) == ("PAUSED", [])
    assert wish(bench, resume=TOKEN) == Controlled("RUNNING", changed=True, reissued=3)
    assert set(names(bench.drain())) == set(names(whole(1)[1:]))
    assert bench.head.outbox == ()
    bench.finish()
    assert (bench.head.state, clean(bench)) == ("SUCCEEDED", True)


def test_an_unsent_outbox_is_dropped_by_a_pause_and_sent_by_a_resume(bench: Bench) -> None:
    bench.tamper(bench.head.model_copy(update={"outbox": (train(1, 3),)}))
    wish(bench, want="pause")
    assert bench.drain() == []
    wish(bench)
    assert train(1, 3) in [WorkItem(epoch=one.epoch, subtask=one.subtask) for one in bench.drain()]


def test_a_paused_job_costs_nothing_however_often_it_is_reconciled(bench: Bench) -> None:
    wish(bench, want="pause")
    before = bench.store.snapshot()
    for _ in range(3):
        bench.clock.advance(20 * LEASE_SECONDS)
        bench.reconcile()
    assert bench.store.snapshot() == before
    assert bench.drain() == []


def test_cancel_leaves_its_latest_version_and_nothing_to_do(bench: Bench) -> None:
    bench.aggregate(bench.trained(1, 0))
    model = bench.head.model
    assert wish(bench, want="cancel") == Controlled("CANCELLED", changed=True)
    assert wish(bench, want="cancel") == Controlled("CANCELLED")
    late = bench.trained(1, 1)
    assert bench.aggregate(late).dropped == 1
    assert (bench.head.final, bench.head.results_merged, bench.drain()) == (model, 1, [])
    assert clean(bench)


def test_cancel_while_planning() -> None:
    bench = Bench()
    bench.upload()
    bench.plan()
    wish(bench, want="cancel")
    assert (bench.head.state, bench.head.final) == ("CANCELLED", None)
    assert bench.aggregate(bench.initialized()).dropped == 1


@pytest.mark.parametrize(("want", "state"), [("cancel", "CANCELLED"), ("pause", "PAUSED")])
def test_a_wish_that_was_there_before_planning(want: Any, state: str) -> None:
    bench = Bench()
    bench.upload()
    wish(bench, want=want)
    bench.plan()
    assert (bench.head.state, bench.drain(), clean(bench)) == (state, [], True)
    if want == "pause":
        wish(bench, resume=TOKEN)
        assert (bench.head.state, names(bench.drain())) == ("PLANNING", [(0, "initialize")])


def test_a_damaged_wish_does_not_keep_a_job_from_being_planned() -> None:
    bench = Bench()
    bench.upload()
    bench.store.put(ControlKey(JOB).render(), b"{")
    bench.plan()
    assert names(bench.drain()) == [(0, "initialize")]
    with pytest.raises(Malformed, match="control file"):
        control_job(bench.world, JOB)


def test_reconcile_carries_out_a_wish_whose_event_never_came(bench: Bench) -> None:
    bench.store.put(ControlKey(JOB).render(), Control(want="cancel").to_json())
    bench.reconcile()
    assert bench.head.state == "CANCELLED"


# --- poison -------------------------------------------------------------------------------------


def test_a_shard_that_always_fails_leaves_a_degraded_job_that_names_it() -> None:
    bench = Bench()
    bench.start(4, epochs=1, retries={"failures": 3, "max_dead": 1})
    poison = train(1, 3)
    bench.drain()
    deliveries = 1
    for attempt in range(4):
        bench.aggregate(bench.failed(poison, f"ValueError: pixel {attempt}"))
        deliveries += names(bench.drain()).count((1, "train-000003"))
    assert deliveries == 4
    (grave,) = bench.head.dead
    assert grave.reason == "failed 4 times, last: ValueError: pixel 3"
    evidence = bench.store.get(grave.evidence or "").body
    assert b"Traceback" in evidence
    head = finish_without(bench)
    assert (head.state, head.final, head.results_merged) == ("DEGRADED", head.model, 3)
    assert head.reason == f"1 dead: train-000003 of epoch 1: {grave.reason}"


def test_a_redriven_subtask_is_merged_late_with_the_alpha_of_its_own_epoch(bench: Bench) -> None:
    finish_without(bench, train(1, 3))
    assert bench.head.state == "DEGRADED"
    assert redrive(bench) == Controlled("RUNNING", changed=True)
    assert (names(bench.drain()), clean(bench)) == ([(1, "train-000003")], True)
    bench.aggregate(bench.trained(1, 3))
    entry = next(entry for _, entry in walk_back(bench.store, bench.head) if entry.merged)
    assert entry.merged[0].coefficient == 0.5  # 1 - e/(e+1) in epoch 1, whichever is the latest
    assert [(one.epoch, one.subtask) for one in bench.drain()] == [(2, "evaluate-000000")]
    assert clean(bench)
    head = bench.finish()
    assert (head.state, head.results_merged, head.final) == ("SUCCEEDED", 8, head.model)
    assert clean(bench)
    chain = [entry for _, entry in walk_back(bench.store, head)]
    assert [names(entry.redriven) for entry in chain if entry.redriven] == [[(1, "train-000003")]]
    assert sum(len(entry.dead) for entry in chain) == 1


def test_failures_from_before_count_no_second_time(bench: Bench) -> None:
    kill(bench, train(1, 3))
    redrive(bench)
    bench.drain()
    head = bench.head
    bench.clock.advance(LEASE_SECONDS - 1)
    bench.attempt(train(1, 3))
    bench.clock.advance(2)
    bench.reconcile()
    assert bench.head.counts.failed == head.counts.failed
    assert bench.head.dead == ()


def test_a_result_that_came_while_its_subtask_was_dead_is_merged_after_a_redrive(
    bench: Bench,
) -> None:
    kill(bench, train(1, 3))
    late = bench.trained(1, 3)
    assert bench.aggregate(late).dropped == 1
    redrive(bench)
    bench.clock.advance(LEASE_SECONDS + 1)
    assert bench.reconcile().results_found == 1
    assert bench.head.results_merged == 1
    assert clean(bench)


def test_results_of_an_earlier_evaluation_do_not_count_for_the_next(bench: Bench) -> None:
    bench.aggregate(*(bench.trained(1, shard) for shard in (0, 1, 2)))
    kill(bench, train(1, 3))
    bench.finish()
    refused = bench.head.counts.refused
    redrive(bench)
    bench.clock.advance(1)
    bench.aggregate(bench.trained(1, 3))
    old = [info.key for info in bench.store.list(f"results/{JOB}/000002/evaluate-000000/")]
    assert len(old) == 1
    key = bench.result_key(evaluation(2), old[0].rpartition("/")[2].removesuffix(".safetensors"))
    assert bench.aggregate(key).dropped == 1  # its event comes once more
    bench.clock.advance(LEASE_SECONDS + 1)
    assert bench.reconcile().results_found == 0
    assert bench.head.counts.refused == refused
    assert bench.finish().state == "SUCCEEDED"


def test_a_job_that_failed_for_its_dead_is_revived() -> None:
    bench = Bench()
    bench.start(4, retries={"failures": 1, "max_dead": 0})
    assert kill(bench, train(1, 3)).state == "FAILED"
    bench.drain()
    redrive(bench)
    assert set(names(bench.drain())) == set(names(whole(1)))
    assert (bench.finish().state, clean(bench)) == ("SUCCEEDED", True)


def test_initialize_is_redriven_too() -> None:
    bench = Bench()
    bench.upload(retries={"failures": 1})
    bench.plan()
    assert kill(bench, item(0, "initialize")).state == "FAILED"
    redrive(bench)
    assert bench.head.state == "PLANNING"
    assert (bench.finish().state, clean(bench)) == ("SUCCEEDED", True)


# --- the mark of a live job ---------------------------------------------------------------------


def put_away(bench: Bench) -> None:
    bench.clock.advance(HOUR_SECONDS + 1)
    bench.reconcile()
    assert active_jobs(bench.store) == []


def test_a_revived_job_is_marked_as_live_again(bench: Bench) -> None:
    finish_without(bench, train(1, 3))
    put_away(bench)
    redrive(bench)
    assert active_jobs(bench.store) == [JOB]


def test_whoever_dies_before_reviving_a_job_leaves_a_mark(bench: Bench) -> None:
    finish_without(bench, train(1, 3))
    put_away(bench)
    bench.store.put(ControlKey(JOB).render(), Control(redrive=Redrive(token=TOKEN)).to_json())
    bench.store.on_write = crash_at(bench.store.calls["put"] + bench.store.calls["delete"] + 1)
    with pytest.raises(Crashed):
        control_job(bench.world, JOB)
    bench.store.on_write = None
    assert (bench.head.ended, active_jobs(bench.store)) == (True, [JOB])
    bench.reconcile()
    assert names(bench.drain()) == [(1, "train-000003")]


def test_a_mark_that_was_deleted_around_the_commit_is_put_again(bench: Bench) -> None:
    finish_without(bench, train(1, 3))
    at(bench, "after", lambda: bench.store.delete(ACTIVE))
    redrive(bench)
    assert active_jobs(bench.store) == [JOB]
    bench.store.delete(ACTIVE)
    control_job(bench.world, JOB)  # the event comes twice
    assert active_jobs(bench.store) == [JOB]


# --- together with others -----------------------------------------------------------------------


def at(bench: Bench, moment: str, action: Callable[[], object]) -> None:
    """Something else happens just before or after the next write of the head."""

    def hook(write: Write) -> None:
        if (write.key, write.moment) == (HEAD, moment):
            bench.store.on_write = None
            action()

    bench.store.on_write = hook


def test_two_that_control_at_once_change_it_once(bench: Bench) -> None:
    kill(bench, train(1, 3))
    bench.drain()
    at(bench, "before", lambda: control_job(bench.world, JOB))
    assert redrive(bench) == Controlled("RUNNING")
    assert names(bench.drain()) == [(1, "train-000003")]


def test_a_merge_in_between_is_not_lost(bench: Bench) -> None:
    key = bench.trained(1, 0)
    at(bench, "before", lambda: bench.aggregate(key))
    wish(bench, want="cancel")
    assert (bench.head.state, bench.head.results_merged) == ("CANCELLED", 1)
    assert bench.head.final == bench.head.model


def test_others_that_commit_first_each_time_send_it_back(bench: Bench) -> None:
    def hook(write: Write) -> None:
        if (write.key, write.moment) == (HEAD, "before"):
            hook_off, bench.store.on_write = bench.store.on_write, None
            head = bench.head
            bench.tamper(head.model_copy(update={"revision": head.revision + 1}))
            bench.store.on_write = hook_off

    bench.store.on_write = hook
    with pytest.raises(Retry, match="lost 12 commits"):
        wish(bench, want="pause")


def test_a_message_names_what_is_redriven(bench: Bench) -> None:
    finish_without(bench, evaluation(1))
    redrive(bench)
    (message,) = bench.drain()
    assert message == Subtask(
        job=JOB,
        run=bench.head.run,
        epoch=1,
        subtask="evaluate-000000",
        model=bench.head.evaluations[0].model,
    )
