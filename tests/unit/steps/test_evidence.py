import pytest

from spotgrad.protocol.head import DeadSubtask
from spotgrad.protocol.result import Failed
from spotgrad.steps.evidence import Evidence, read_evidence
from tests.builders import JOB, Bench, evaluation, item, manifest, train

SHARD = manifest().splits["train"].shards[3].key


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.start()
    return made


def grave(evidence: str | None, subtask: str = "train-000003") -> DeadSubtask:
    return DeadSubtask(epoch=1, subtask=subtask, reason="boom", evidence=evidence)


def test_the_failed_result_says_what_was_raised_and_where(bench: Bench) -> None:
    outcome = Failed(error="E: x", traceback="T", batch_idx=7, rows=(70, 71))
    key = bench.put(train(1, 3), outcome).render()
    assert read_evidence(bench.store, JOB, grave(key)) == Evidence(
        shard=SHARD,
        worker="worker-a",
        error="E: x",
        traceback="T",
        batch_idx=7,
        rows=(70, 71),
    )


def test_a_refused_result_raised_nothing(bench: Bench) -> None:
    key = bench.trained(1, 3).render()
    found = read_evidence(bench.store, JOB, grave(key))
    assert found == Evidence(shard=SHARD, worker="worker-a")


@pytest.mark.parametrize("body", [None, b"damaged"])
def test_what_is_gone_or_damaged_leaves_the_shard(bench: Bench, body: bytes | None) -> None:
    key = bench.result_key(train(1, 3)).render()
    if body is not None:
        bench.store.put(key, body)
    assert read_evidence(bench.store, JOB, grave(key)) == Evidence(shard=SHARD)
    assert read_evidence(bench.store, JOB, grave(None)) == Evidence(shard=SHARD)


@pytest.mark.parametrize(
    ("subtask", "shard"),
    [
        (item(0, "initialize").subtask, None),
        (evaluation(1).subtask, manifest().splits["validation"].shards[0].key),
    ],
)
def test_each_kind_reads_its_own_shard(bench: Bench, subtask: str, shard: str | None) -> None:
    assert read_evidence(bench.store, JOB, grave(None, subtask)) == Evidence(shard=shard)
