from collections.abc import Callable

import numpy as np
import pytest

from spotgrad.errors import Malformed, NotFound, Retry, StoreUnavailable
from spotgrad.planning.order import shard_order
from spotgrad.ports import StoredObject
from spotgrad.protocol.keys import HeadKey, RejectionKey, SpecKey
from spotgrad.protocol.ledger import LedgerEntry, MergedResult
from spotgrad.protocol.refusal import Rejection
from spotgrad.protocol.result import ModelMetadata
from spotgrad.protocol.tensors import digest, encode, read_metadata
from spotgrad.steps.aggregate_results import Aggregated
from spotgrad.steps.audit import audit
from spotgrad.steps.chain import walk_back
from tests.builders import JOB, Bench, item, names, tensors, train, whole
from tests.fakes.faults import Crashed, Fault
from tests.fakes.store import Write, crash_at

HEAD = HeadKey(JOB).render()
ALPHA = {"rule": "vc-asgd", "alpha": 0.9}


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.start(merge=ALPHA)
    made.drain()
    return made


def weight(bench: Bench) -> np.float32:
    values = bench.model().tensors["weight"]
    assert (values == values.flat[0]).all()
    return np.float32(values.flat[0])


def merged_rows(bench: Bench) -> list[tuple[LedgerEntry, MergedResult]]:
    entries = [entry for _, entry in walk_back(bench.store, bench.head)]
    return [(entry, row) for entry in entries[::-1] for row in entry.merged]


def before_the_next_head(bench: Bench, action: Callable[[], object]) -> None:
    """Another process comes in between this one's decision and its commit."""

    def hook(write: Write) -> None:
        if (write.key, write.moment) == (HEAD, "before"):
            bench.store.on_write = None
            action()

    bench.store.on_write = hook


# --- merging ------------------------------------------------------------------------------------


def test_initialize_becomes_version_0_as_it_is() -> None:
    bench = Bench()
    head = bench.start(value=0.25)
    assert bench.aggregate() == Aggregated(None, 0, (), 0)
    assert (head.version, head.results_merged, head.state) == (0, 0, "RUNNING")
    assert bench.model().tensors["weight"].tolist() == [[0.25, 0.25], [0.25, 0.25]]
    assert bench.model().tensors["flag"].tolist() == [True, False]
    in_order = [train(1, shard) for shard in shard_order(0, 1, 4)]
    assert names(bench.drain()) == [(0, "initialize"), *names(in_order)]


def test_a_half_precision_first_model_gets_a_float32_master() -> None:
    bench = Bench()
    bench.upload()
    bench.plan()
    key = bench.initialized()
    body = tensors() | {"weight": np.full((2, 2), 0.5, np.float16)}
    metadata = read_metadata(bench.store.get(key.render()).body)
    bench.store.put(key.render(), encode(body, metadata))
    bench.aggregate(key)
    assert bench.model().tensors["weight"].dtype == np.float32


def test_an_event_that_comes_twice_merges_once(bench: Bench) -> None:
    """The field case: alpha 0.9 from 0 towards 1 gives 0.1; 0.19 would be the double merge."""
    key = bench.trained(1, 0, 1.0)
    assert bench.aggregate(key, key) == Aggregated(1, 1, (), 0)
    revision = bench.head.revision
    assert bench.aggregate(key) == Aggregated(None, 0, (), 1)
    assert weight(bench) == np.float32(0.1)
    assert (bench.head.version, bench.head.revision) == (1, revision)


def test_order_is_the_order_of_arrival(bench: Bench) -> None:
    """The field case: 1, 2, 3 at alpha 0.9 from 0 give 0.561; reversed 0.523."""
    other = Bench()
    other.start(merge=ALPHA)
    for one, shards in ((bench, (0, 1, 2)), (other, (2, 1, 0))):
        one.aggregate(*(one.trained(1, shard, shard + 1.0) for shard in shards))
    assert weight(bench) == pytest.approx(0.561, rel=1e-6)
    assert weight(other) == pytest.approx(0.523, rel=1e-6)


def test_a_batch_equals_single_merges(bench: Bench) -> None:
    other = Bench()
    other.start(merge=ALPHA)
    bench.aggregate(*(bench.trained(1, shard, shard + 1.0) for shard in range(4)))
    for key in [other.trained(1, shard, shard + 1.0) for shard in range(4)]:
        other.aggregate(key)
    assert weight(bench) == pytest.approx(float(weight(other)), abs=1e-6)
    assert (bench.head.version, other.head.version) == (1, 4)
    assert bench.head.results_merged == other.head.results_merged == 4


def test_counters_take_the_maximum_and_booleans_stay(bench: Bench) -> None:
    key = bench.trained(1, 0, body=tensors(1.0, counter=110) | {"flag": np.array([False, True])})
    bench.aggregate(key)
    assert bench.model().tensors["counter"].tolist() == 110
    assert bench.model().tensors["flag"].tolist() == [True, False]


def test_the_model_file_tells_workers_what_they_began_from(bench: Bench) -> None:
    bench.aggregate(bench.trained(1, 0), bench.trained(1, 1))
    said = ModelMetadata.from_header(bench.model().metadata)
    assert (said.version, said.results_merged, said.run) == (1, 2, bench.head.run)
    assert bench.head.model is not None
    assert said.commit == bench.head.model.commit


def test_staleness_is_counted_from_the_base_s_results(bench: Bench) -> None:
    old = bench.base()
    bench.aggregate(bench.trained(1, 0), bench.trained(1, 1))
    bench.aggregate(bench.trained(1, 2, base=old), bench.trained(1, 3))
    rows = {row.subtask: row.staleness for _, row in merged_rows(bench)}
    assert rows == {
        "train-000000": 0,
        "train-000001": 1,
        "train-000002": 2,
        "train-000003": 1,
    }


def test_head_and_entry_name_the_new_server_copy(bench: Bench) -> None:
    before = bench.head
    bench.aggregate(bench.trained(1, 0))
    head = bench.head
    body = bench.store.get(head.objects["server"].key).body
    assert head.objects["server"].sha256 == digest(body)
    assert head.objects["server"].size_bytes == len(body)
    assert head.model is not None
    assert head.model.key == head.objects["server"].key
    ((entry, row),) = merged_rows(bench)
    assert (entry.start, entry.server) == (before.objects["server"], head.objects["server"])
    assert row.coefficient == pytest.approx(0.1)
    assert entry.server_coefficient == 0.9
    assert row.update_norm == 2.0


def test_an_epoch_s_last_merge_sends_evaluation_and_the_next_epoch(bench: Bench) -> None:
    bench.aggregate(*(bench.trained(1, shard) for shard in range(4)))
    sent = bench.drain()
    assert names(sent)[0] == (1, "evaluate-000000")
    assert sent[0].model == bench.head.model
    assert set(names(sent)[1:]) == set(names(whole(2)))
    assert bench.head.outbox == ()


def test_a_job_goes_to_its_end_and_its_audit_is_clean(bench: Bench) -> None:
    head = bench.finish()
    assert (head.state, head.version, head.metrics) == ("SUCCEEDED", 8, {"accuracy": 0.5})
    assert audit(bench.store, JOB).findings == ()
    assert bench.store.calls["delete"] == 0


# --- dropped and refused ------------------------------------------------------------------------


def test_without_a_head_or_an_object_there_is_nothing_to_do() -> None:
    bench = Bench()
    key = bench.result_key(train(1, 0))
    assert bench.aggregate(key) == Aggregated(None, 0, (), 1)
    bench.start()
    writes = bench.store.calls["put"]
    assert bench.aggregate(key) == Aggregated(None, 0, (), 1)
    assert bench.store.calls["put"] == writes


def test_what_is_not_open_is_dropped_before_its_tensors_are_fetched(bench: Bench) -> None:
    merged = bench.trained(1, 0)
    bench.aggregate(merged)
    gets = bench.store.calls["get"]
    assert bench.aggregate(merged, bench.result_key(train(2, 0))).dropped == 2
    assert bench.store.calls["get"] == gets + 1  # the head


def test_results_for_an_ended_job_are_dropped(bench: Bench) -> None:
    late = bench.trained(1, 3)
    bench.tamper(bench.head.model_copy(update={"state": "CANCELLED"}))
    before = bench.store.snapshot()
    assert bench.aggregate(late).dropped == 1
    assert bench.store.snapshot() == before


def test_a_poisoned_result_is_refused_with_its_reason_and_issued_again(bench: Bench) -> None:
    key = bench.trained(1, 2, float("nan"))
    report = bench.aggregate(key)
    (row,) = report.refused
    assert (report.version, report.merged, report.dropped) == (0, 0, 0)
    reason = "tensor 'weight' holds nan at element 0: expected finite values"
    assert row.reason == reason
    sidecar = RejectionKey(JOB, 1, key.subtask, key.attempt).render()
    assert Rejection.from_json(bench.store.get(sidecar).body) == Rejection(
        result=key.render(), reason=reason
    )
    assert bench.head.version == 0
    assert weight(bench) == 0.0
    assert names(bench.drain()) == [(1, "train-000002")]
    assert bench.aggregate(key).dropped == 1
    assert bench.head.counts.refused == 1
    bench.aggregate(bench.trained(1, 2, 1.0))
    assert weight(bench) == np.float32(0.1)


def test_one_poisoned_of_five_equals_the_merge_of_four() -> None:
    values = {0: 1.0, 1: 2.0, 2: float("inf"), 3: 3.0, 4: 4.0}
    poisoned, clean = Bench(), Bench()
    for bench in (poisoned, clean):
        bench.start(5)
    keys = [poisoned.trained(1, shard, value) for shard, value in values.items()]
    report = poisoned.aggregate(*keys)
    clean.aggregate(*(clean.trained(1, shard, values[shard]) for shard in (0, 1, 3, 4)))
    assert (report.merged, len(report.refused)) == (4, 1)
    assert poisoned.model().tensors["weight"].tobytes() == clean.model().tensors["weight"].tobytes()


@pytest.mark.parametrize(
    ("max_dead", "state", "reason"),
    [
        (1, "DEGRADED", "1 dead: train-000000 of epoch 1"),
        (0.05, "FAILED", "too many dead subtasks (1), last train-000000"),  # 5% of 8 are none
    ],
)
def test_a_subtask_refused_too_often_is_dead(max_dead: float, state: str, reason: str) -> None:
    bench = Bench()
    bench.start(retries={"max_dead": max_dead})
    for _ in range(4):
        bench.aggregate(bench.trained(1, 0, samples=0))
    assert bench.head.dead[0].subtask == "train-000000"
    head = bench.finish()
    last = "refused 4 times, last: samples is 0: expected a positive integer"
    assert (head.state, head.reason) == (state, f"{reason}: {last}")
    assert audit(bench.store, JOB).findings == ()


def test_failures_evaluations_and_initialize_count_as_neither_merged_nor_dropped() -> None:
    bench = Bench()
    bench.upload()
    bench.plan()
    assert bench.aggregate(bench.initialized()) == Aggregated(0, 0, (), 0)
    assert bench.aggregate(bench.failed(train(1, 0))) == Aggregated(0, 0, (), 0)
    bench.aggregate(*(bench.trained(1, shard) for shard in range(4)))
    assert bench.aggregate(bench.evaluated(1, accuracy=0.5)) == Aggregated(1, 0, (), 0)


# --- commits ------------------------------------------------------------------------------------


def test_losing_the_commit_means_deciding_again(bench: Bench) -> None:
    """Two aggregators: the other merges shard 1 between our merge and our commit."""
    mine, theirs = bench.trained(1, 0, 1.0), bench.trained(1, 1, 2.0)
    before_the_next_head(bench, lambda: bench.aggregate(theirs))
    assert bench.aggregate(mine) == Aggregated(2, 1, (), 0)
    assert weight(bench) == pytest.approx(0.9 * 0.2 + 0.1)
    assert [row.subtask for _, row in merged_rows(bench)] == ["train-000001", "train-000000"]
    assert [row.staleness for _, row in merged_rows(bench)] == [0, 1]
    assert audit(bench.store, JOB).findings == ()


def test_two_aggregators_with_the_same_event_merge_it_once(bench: Bench) -> None:
    key = bench.trained(1, 0, 1.0)
    before_the_next_head(bench, lambda: bench.aggregate(key))
    assert bench.aggregate(key) == Aggregated(None, 0, (), 1)
    assert weight(bench) == np.float32(0.1)
    assert bench.head.version == 1


def test_the_loser_s_objects_stay_where_they_are(bench: Bench) -> None:
    key = bench.trained(1, 0, 1.0)
    before_the_next_head(bench, lambda: bench.aggregate(key))
    bench.aggregate(key)
    models = [info.key for info in bench.store.list(f"models/{JOB}/00000001-")]
    assert len(models) == 2
    assert bench.store.calls["delete"] == 0


def test_each_result_is_fetched_once_however_often_the_commit_is_lost(bench: Bench) -> None:
    key = bench.trained(1, 0, 1.0)
    bench.store.faults.order(Fault.CONFLICT, key=HEAD, times=3)
    fetched: list[str] = []
    get = bench.store.get

    def counting(key: str) -> StoredObject:
        fetched.append(key)
        return get(key)

    bench.store.get = counting  # type: ignore[method-assign]  # a listener, not a fake
    assert bench.aggregate(key).merged == 1
    assert fetched.count(key.render()) == 1
    assert weight(bench) == np.float32(0.1)


def test_a_lost_answer_commits_once(bench: Bench) -> None:
    bench.store.faults.order(Fault.ANSWER_LOST, operation="put", key=HEAD)
    assert bench.aggregate(bench.trained(1, 0, 1.0)).merged == 1
    assert (bench.head.version, weight(bench)) == (1, np.float32(0.1))
    assert len(list(bench.store.list(f"models/{JOB}/00000001-"))) == 1


def test_an_outage_at_any_write_is_mended_by_the_next_delivery(bench: Bench) -> None:
    key = bench.trained(1, 0, 1.0)
    bench.store.faults.order(Fault.UNAVAILABLE, operation="put", key=HEAD)
    with pytest.raises(StoreUnavailable):
        bench.aggregate(key)
    assert bench.head.version == 0
    assert bench.aggregate(key).merged == 1
    assert weight(bench) == np.float32(0.1)


def test_losing_for_ever_gives_the_message_back(bench: Bench) -> None:
    bench.store.faults.order(Fault.CONFLICT, key=HEAD, times=99)
    with pytest.raises(Retry, match="lost 12 commits"):
        bench.aggregate(bench.trained(1, 0))
    assert bench.head.version == 0


@pytest.mark.parametrize("write", range(1, 8))
def test_a_crash_after_any_write_changes_nothing_in_the_end(write: int) -> None:
    """Refused and merged in one batch: sidecar, model, entry, head, entry, head."""
    bench = Bench()
    bench.start(merge=ALPHA)
    bench.drain()
    keys = [bench.trained(1, 0, 1.0), bench.trained(1, 1, float("nan"))]
    written = bench.store.calls["put"]
    bench.store.on_write = crash_at(written + write)
    try:
        bench.aggregate(*keys)
    except Crashed:
        bench.store.on_write = None
        bench.aggregate(*keys)
    else:
        assert write == 7
    head = bench.head
    assert (head.version, head.results_merged, head.outbox) == (1, 1, ())
    assert (head.counts.refused, weight(bench)) == (1, np.float32(0.1))
    assert set(names(bench.drain())) == {(1, "train-000001")}
    assert audit(bench.store, JOB).findings == ()


# --- the outbox ---------------------------------------------------------------------------------


def test_an_outbox_that_is_met_is_sent_and_emptied_though_there_is_nothing_to_merge(
    bench: Bench,
) -> None:
    bench.tamper(bench.head.model_copy(update={"outbox": (train(1, 3),)}))
    assert bench.aggregate() == Aggregated(None, 0, (), 0)
    assert names(bench.drain()) == [(1, "train-000003")]
    assert bench.head.outbox == ()
    bench.aggregate()
    assert bench.drain() == []


def test_the_next_merge_sends_an_outbox_that_it_meets_and_commits_it_empty(bench: Bench) -> None:
    bench.tamper(bench.head.model_copy(update={"outbox": (train(1, 3),)}))
    assert bench.aggregate(bench.trained(1, 0)).merged == 1
    assert names(bench.drain()) == [(1, "train-000003")]
    assert (bench.head.outbox, bench.head.version) == ((), 1)


def test_a_queue_that_fails_leaves_the_outbox_for_the_next_delivery(bench: Bench) -> None:
    key = bench.trained(1, 0, samples=0)
    bench.queue.faults.order(Fault.UNAVAILABLE, operation="send")
    with pytest.raises(StoreUnavailable):
        bench.aggregate(key)
    assert bench.head.outbox == (train(1, 0),)
    assert bench.aggregate(key).dropped == 1
    assert names(bench.drain()) == [(1, "train-000000")]


# --- damage -------------------------------------------------------------------------------------


def test_a_tampered_server_copy_is_never_merged_into(bench: Bench) -> None:
    old = bench.base()
    bench.aggregate(bench.trained(1, 0))
    key = bench.head.objects["server"].key
    bench.store.put(key, bench.store.get(key).body[:-1] + b"\x01")
    bench.start_cold()
    with pytest.raises(Malformed, match="its bytes are not those that were committed"):
        bench.aggregate(bench.trained(1, 1, base=old))
    assert bench.head.version == 1


def test_a_warm_function_reads_head_and_result_alone(bench: Bench) -> None:
    bench.aggregate(bench.trained(1, 0))
    key = bench.trained(1, 1)
    gets = bench.store.calls["get"]
    bench.aggregate(key)
    assert bench.store.calls["get"] == gets + 2
    bench.start_cold()
    key = bench.trained(1, 2)
    gets = bench.store.calls["get"]
    bench.aggregate(key)
    assert bench.store.calls["get"] == gets + 4  # the plan and the server copy as well


def test_a_planned_job_whose_spec_is_gone_says_so(bench: Bench) -> None:
    bench.store.delete(SpecKey(JOB).render())
    bench.start_cold()
    with pytest.raises(NotFound, match=r"spec\.json"):
        bench.aggregate(bench.trained(1, 0))


def test_a_job_whose_initialize_fails_for_good_has_no_version() -> None:
    bench = Bench()
    bench.upload(retries={"failures": 1})
    bench.plan()
    for _ in range(2):
        bench.aggregate(bench.failed(item(0, "initialize"), "ImportError: digits_task"))
    assert (bench.head.state, bench.head.version, bench.head.objects) == ("FAILED", None, {})
    assert bench.head.reason == (
        "initialize is dead: failed 2 times, last: ImportError: digits_task"
    )
