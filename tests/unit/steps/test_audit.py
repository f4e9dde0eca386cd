from collections.abc import Callable
from typing import Any

import pytest

from spotgrad.errors import NotFound
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import SpecKey
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.steps.audit import AuditReport, audit
from spotgrad.steps.chain import walk_back
from tests.builders import JOB, Bench, train
from tests.fakes.store import FakeStore


@pytest.fixture
def bench() -> Bench:
    """A job that has ended: two epochs of two shards, each merged on its own."""
    made = Bench()
    made.start(2)
    made.aggregate(made.trained(1, 0, samples=0))
    made.finish()
    return made


def findings(bench: Bench) -> list[str]:
    return list(audit(bench.store, JOB).findings)


def entries(bench: Bench) -> list[tuple[str, LedgerEntry]]:
    """Keys and entries, revision 0 first."""
    return list(walk_back(bench.store, bench.head))[::-1]


def merging(bench: Bench, number: int) -> tuple[str, LedgerEntry]:
    """The entry of the ``number``-th merge."""
    return [(key, entry) for key, entry in entries(bench) if entry.merged][number]


def forge(bench: Bench, found: tuple[str, LedgerEntry], **changes: Any) -> None:
    key, entry = found
    bench.store.put(key, entry.model_copy(update=changes).to_json())


def forge_row(bench: Bench, found: tuple[str, LedgerEntry], **changes: Any) -> None:
    (row,) = found[1].merged
    forge(bench, found, merged=(row.model_copy(update=changes),))


def flip(store: FakeStore, key: str) -> None:
    body = store.get(key).body
    store.put(key, body[:-1] + bytes([body[-1] ^ 1]))


# --- nothing found ------------------------------------------------------------------------------


def test_a_good_job_is_clean(bench: Bench) -> None:
    assert audit(bench.store, JOB) == AuditReport(
        job=JOB,
        revisions=bench.head.revision + 1,
        versions=5,
        results_merged=4,
        versions_rebuilt=5,
        versions_without_inputs=0,
        findings=(),
    )


def test_a_job_is_clean_at_any_moment() -> None:
    bench = Bench()
    bench.upload(2, schedule={"issue": "rolling"})
    bench.plan()
    assert findings(bench) == []
    bench.aggregate(bench.initialized())
    assert findings(bench) == []
    bench.aggregate(bench.trained(1, 0))
    bench.aggregate(bench.trained(2, 0))
    assert findings(bench) == []
    bench.aggregate(bench.trained(1, 1))
    assert findings(bench) == []


@pytest.mark.parametrize("max_dead", [1, 0])
def test_a_dead_shard_is_no_finding(max_dead: int) -> None:
    bench = Bench()
    bench.start(2, retries={"failures": 0, "max_dead": max_dead})
    bench.aggregate(bench.failed(train(1, 1)))
    bench.finish()
    assert bench.head.state == ("DEGRADED" if max_dead else "FAILED")
    assert findings(bench) == []


def test_a_job_that_its_stop_rule_ended_is_clean() -> None:
    bench = Bench()
    bench.start(2, epochs=9, stop={"metric": "accuracy", "at_least": 0.5})
    bench.finish()
    assert bench.head.reason == "stop rule met in epoch 1: accuracy 0.5 >= 0.5"
    assert findings(bench) == []


def test_expired_results_are_counted_not_found_fault_with(bench: Bench) -> None:
    bench.store.delete(merging(bench, 1)[1].merged[0].key)
    report = audit(bench.store, JOB)
    assert (report.versions_rebuilt, report.versions_without_inputs) == (4, 1)
    assert report.findings == ()


def test_there_must_be_a_job() -> None:
    with pytest.raises(NotFound, match="there is no job 'digits' here"):
        audit(FakeStore(), JOB)


# --- one sin each -------------------------------------------------------------------------------


def test_a_missing_entry_breaks_the_chain(bench: Bench) -> None:
    key = entries(bench)[3][0]
    bench.store.delete(key)
    assert findings(bench) == [f"the ledger chain is broken: get {key}: there is no such key"]


def test_a_damaged_entry_breaks_the_chain(bench: Bench) -> None:
    bench.store.put(entries(bench)[3][0], b"{}")
    (found,) = findings(bench)
    assert found.startswith("the ledger chain is broken: ledger entry: ")


def test_an_entry_under_another_s_key_is_found(bench: Bench) -> None:
    key, entry = entries(bench)[3]
    forge(bench, (key, entry), commit="ee" * 8)
    assert findings(bench) == [f"{key} holds the entry of another commit"]


def test_a_revision_gap_is_found(bench: Bench) -> None:
    every = entries(bench)
    forge(bench, every[4], previous=every[2][0])
    found = findings(bench)
    assert "revision 4 stands where 3 belongs" in found


def test_an_entry_of_another_run_is_found(bench: Bench) -> None:
    forge(bench, entries(bench)[1], run="ee" * 8)
    assert findings(bench) == ["revision 1 is of another job or run"]


def test_a_double_merge_is_found(bench: Bench) -> None:
    first = merging(bench, 0)[1].merged[0]
    forge_row(bench, merging(bench, 1), subtask=first.subtask, epoch=first.epoch)
    found = findings(bench)
    assert f"{first.subtask} of epoch 1 was merged 2 times" in found
    assert len(found) == 2
    assert found[1].startswith("epoch 1 is closed, but train-00000")


def test_a_missing_shard_is_found(bench: Bench) -> None:
    forge_row(bench, merging(bench, 3), subtask="train-000007")
    shard = 1 if merging(bench, 2)[1].merged[0].subtask == "train-000000" else 0
    assert findings(bench) == [
        f"epoch 2 is closed, but train-{shard:06d} was neither merged nor is dead"
    ]


def test_a_ledger_that_does_not_close_an_epoch_is_found(bench: Bench) -> None:
    forge(bench, merging(bench, 1), closed_epochs=())
    assert findings(bench) == ["the ledger closes epochs [0, 2], the head those before 3"]


def test_a_coefficient_that_the_rule_does_not_give_is_found(bench: Bench) -> None:
    found = merging(bench, 2)
    forge_row(bench, found, coefficient=0.4)
    revision = found[1].revision
    assert findings(bench) == [
        f"revision {revision} merged by coefficients the rule does not give",
        "version 3 is not the merge that its entry describes",
    ]


def test_a_server_coefficient_that_the_rule_does_not_give_is_found(bench: Bench) -> None:
    found = merging(bench, 2)
    forge(bench, found, server_coefficient=0.6)
    assert findings(bench)[0] == (
        f"revision {found[1].revision} merged by coefficients the rule does not give"
    )


def test_an_epoch_that_the_rule_refuses_is_a_finding_not_an_error(bench: Bench) -> None:
    found = merging(bench, 0)
    forge_row(bench, found, epoch=0)
    assert any(
        one.startswith(f"revision {found[1].revision} merged what the rule refuses: epoch 0")
        for one in findings(bench)
    )


def test_a_wrong_staleness_is_found(bench: Bench) -> None:
    found = merging(bench, 1)
    row = found[1].merged[0]
    forge_row(bench, found, staleness=row.staleness + 2)
    assert findings(bench) == [f"{row.key} was merged at staleness 2, not 0"]


def test_wrong_counts_are_found(bench: Bench) -> None:
    key, entry = merging(bench, 1)
    forge(bench, (key, entry), results_merged=7, version=6)
    assert set(findings(bench)) >= {
        f"revision {entry.revision} counts 7 results, not 2",
        f"revision {entry.revision} says version 6, the chain 2",
    }


def test_a_merge_into_another_server_copy_is_found(bench: Bench) -> None:
    found = merging(bench, 2)
    forge(bench, found, start=merging(bench, 0)[1].start)
    assert findings(bench) == [
        f"revision {found[1].revision} merged into another server copy than the last"
    ]


def test_a_tampered_model_is_found(bench: Bench) -> None:
    server = merging(bench, 1)[1].server
    if server is None:
        raise LookupError("version 2")
    flip(bench.store, server.key)
    assert findings(bench) == [f"version 2: {server.key} is not what was committed"]


def test_a_tampered_result_is_found(bench: Bench) -> None:
    key = merging(bench, 1)[1].merged[0].key
    flip(bench.store, key)
    assert findings(bench) == [
        f"version 2 cannot be rebuilt: {key}: its bytes are not those that were merged"
    ]


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda head: {"revision": head.revision + 1}, "the head is not the newest entry"),
        (lambda _: {"commit": "ee" * 8}, "the head is not the newest entry of its chain"),
        (lambda _: {"version": 3}, "the head counts other versions or results than its newest"),
        (lambda _: {"results_merged": 3}, "the head counts other versions or results than its"),
        (lambda _: {"objects": {}}, "the head names another server copy than the last version's"),
    ],
)
def test_a_head_that_is_not_its_chain_s_is_found(
    bench: Bench, change: Callable[[Head], dict[str, Any]], finding: str
) -> None:
    head = bench.head
    bench.tamper(head.model_copy(update=change(head)))
    (found,) = findings(bench)
    assert found.startswith(finding)


def test_a_job_without_its_spec_is_a_finding(bench: Bench) -> None:
    bench.store.delete(SpecKey(JOB).render())
    (found,) = findings(bench)
    assert found.startswith("the job as it was planned cannot be read: get state/digits/spec.json")


# --- several objects ----------------------------------------------------------------------------


@pytest.fixture
def several() -> Bench:
    made = Bench()
    made.start(2, merge={"rule": "delayed-nesterov", "every": 2, "ema": 0.9})
    made.finish()
    return made


def test_every_object_of_a_good_job_is_rebuilt(several: Bench) -> None:
    assert {"server", "momentum", "ema"} <= several.head.objects.keys()
    assert findings(several) == []


def test_a_merge_with_another_momentum_is_found(several: Bench) -> None:
    found = merging(several, 3)
    before = found[1].objects_before
    forge(several, found, objects_before=before | {"momentum": before["ema"]})
    said = f"revision {found[1].revision} merged with other objects than the last left"
    assert said in findings(several)


def test_a_head_that_names_another_average_is_found(several: Bench) -> None:
    head = several.head
    objects = head.objects | {"ema": head.objects["server"]}
    several.tamper(head.model_copy(update={"objects": objects}))
    assert findings(several) == ["the head names other objects than its chain wrote"]


def test_a_recipe_that_the_rule_does_not_give_is_found(several: Bench) -> None:
    found = merging(several, 3)
    recipe = found[1].recipe
    if recipe is None:
        raise LookupError(found)
    forge(several, found, recipe=recipe.model_copy(update={"tally": {"window": 1.0}}))
    said = f"revision {found[1].revision} merged by coefficients the rule does not give"
    assert said in findings(several)


def test_a_tampered_average_is_found(several: Bench) -> None:
    reference = merging(several, 1)[1].objects["ema"]
    flip(several.store, reference.key)
    assert findings(several) == [f"version 2: {reference.key} is not what was committed"]


def test_an_epoch_that_closes_before_its_round_is_merged_is_found() -> None:
    bench = Bench()
    bench.start(3, merge={"rule": "fedavg"})
    bench.aggregate(bench.trained(1, 0))
    assert findings(bench) == []
    key, entry = entries(bench)[-1]
    forge(bench, (key, entry), closed_epochs=(1,))
    said = f"revision {entry.revision} closes an epoch whose round is not merged"
    assert said in findings(bench)
