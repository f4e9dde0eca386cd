import pytest

from infra.local.chaos.aftermath import Aftermath, read_aftermath
from infra.local.chaos.spec import ChaosSpec
from infra.local.counters import Counts
from spotgrad.errors import NotFound
from spotgrad.protocol.attempt import Attempt, AttemptOutcome
from spotgrad.protocol.keys import AttemptKey, HeadKey, ResultKey
from tests.builders import JOB, RUN, begun, job_plan
from tests.fakes.clock import START
from tests.fakes.store import FakeStore

ALL = ChaosSpec(1.0, 1.0, 1.0, 1.0, True, 1.0, 1.0, 1.0)  # noqa: FBT003 -- every fault there is


def attempt(store: FakeStore, number: int, outcome: AttemptOutcome | None) -> None:
    name = f"{number:016x}"
    document = Attempt(
        job=JOB,
        run=RUN,
        epoch=1,
        subtask="train-000000",
        attempt=name,
        worker="local-1",
        base=None,
        started_at=START,
        beat_at=START,
        outcome=outcome,
    )
    store.put(AttemptKey(JOB, 1, "train-000000", name).render(), document.to_json())


@pytest.fixture
def store() -> FakeStore:
    store = FakeStore()
    head = begun(job_plan())
    counts = head.counts.model_copy(update={"refused": 1})
    store.put(HeadKey(JOB).render(), head.model_copy(update={"counts": counts}).to_json())
    for number, outcome in enumerate((None, None, "returned", "uploaded", "uploaded")):
        attempt(store, number, outcome)  # type: ignore[arg-type]  # each of them is one
    for number, subtask in enumerate(("train-000000", "train-000001", "train-000000")):
        store.put(ResultKey(JOB, 1, subtask, f"{number:016x}").render(), b"")
    store.put(ResultKey(JOB, 1, "train-000001", "f" * 16).render(), b"")
    return store


def test_it_is_read_from_the_bucket_and_the_counters(store: FakeStore) -> None:
    functions = {
        "AggregateFunction": Counts(errors=3),
        "ReconcileFunction": Counts(errors=1),
        "PlanFunction": Counts(errors=7),
    }
    after = read_aftermath(store, JOB, functions, 4)
    assert after == Aftermath(
        attempts={None: 2, "returned": 1, "uploaded": 2},
        dropped=1,
        refused=1,
        functions=functions,
        workers_replaced=4,
    )
    lines = {kind: after.of(kind) for kind in ALL.kinds}
    assert len(lines) == 8
    assert lines["kill"].startswith("2 attempts vanished")
    assert lines["kill"].endswith("4 workers replaced")
    assert lines["notice"].startswith("1 attempts gave")
    assert lines["duplicate"].startswith("1 results more")
    assert lines["corrupt"].startswith("1 results refused")
    assert lines["aggregator-crash"].startswith("4 invocations died")


def test_without_a_job_there_is_no_aftermath() -> None:
    with pytest.raises(NotFound):
        read_aftermath(FakeStore(), JOB, {}, 0)
