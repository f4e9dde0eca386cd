from typing import Any

import pytest

from spotgrad.protocol.head import DeadSubtask, EvaluationProgress, Head
from spotgrad.protocol.keys import AttemptKey, PartialKey, ResultKey
from spotgrad.steps import expire_results as module
from spotgrad.steps.audit import audit
from spotgrad.steps.expire_results import expire_results, has_results
from spotgrad.steps.replay import replay
from tests.builders import JOB, Bench, begun, job_plan, model_ref
from tests.fakes.clock import START
from tests.fakes.store import FakeStore
from tests.unit.cli.jobs import epoch

DAY = 86_400.0
KEEP_DAYS = 30


def head(*open_epochs: int, **changes: Any) -> Head:
    rows = tuple(epoch(number, issued=[0]) for number in open_epochs)
    return begun(job_plan()).model_copy(update={"epochs": rows} | changes)


def keys(number: int, subtask: str = "train-000000") -> list[str]:
    """One result, one attempt and one partial of an epoch."""
    place = (JOB, number, subtask, f"{number:08x}")
    return [kind(*place).render() for kind in (ResultKey, AttemptKey, PartialKey)]


@pytest.fixture
def store() -> FakeStore:
    """Epoch 1, a day later epoch 2, a day later epoch 3."""
    made = FakeStore()
    for number in (1, 2, 3):
        for key in keys(number):
            made.put(key, b"x")
        made.clock.advance(DAY)
    made.put(f"models/{JOB}/00000000-cafecafe/server.safetensors", b"x")
    made.put(f"results/{JOB}/000001/notes.txt", b"x")
    return made


def left(store: FakeStore) -> list[int]:
    """The epochs of which something is left."""
    areas = ("results/", "attempts/", "partial/")
    found = [key for key in store.snapshot() if key.startswith(areas) and "notes" not in key]
    assert len(found) % len(areas) == 0
    return sorted({int(key.split("/")[2]) for key in found})


def expire(store: FakeStore, present: Head) -> int:
    return expire_results(store, present, KEEP_DAYS, store.clock.now())


def test_what_is_old_enough_goes_and_nothing_else(store: FakeStore) -> None:
    store.clock.advance((KEEP_DAYS - 3) * DAY)
    assert expire(store, head(3)) == 0
    store.clock.advance(1)
    assert expire(store, head(3)) == 3
    assert left(store) == [2, 3]
    store.clock.advance(DAY)
    assert expire(store, head(3)) == 3
    assert left(store) == [3]
    assert f"models/{JOB}/00000000-cafecafe/server.safetensors" in store.snapshot()
    assert f"results/{JOB}/000001/notes.txt" in store.snapshot()


@pytest.mark.parametrize(
    "present",
    [
        head(2, 3),
        head(3, late=(epoch(2, issued=[0]),)),
        head(
            3,
            evaluations=(
                EvaluationProgress(epoch=2, model=model_ref(1), subtasks=1, issued_at=START),
            ),
        ),
    ],
    ids=["training", "redriven", "evaluating"],
)
def test_an_open_epoch_keeps_everything(store: FakeStore, present: Head) -> None:
    store.clock.advance(1000 * DAY)
    assert expire(store, present) == 3
    assert left(store) == [2, 3]


def test_an_ended_job_keeps_nothing(store: FakeStore) -> None:
    store.clock.advance(1000 * DAY)
    assert has_results(store, JOB)
    assert expire(store, head(3, state="DEGRADED")) == 9
    assert left(store) == []
    store.delete(f"results/{JOB}/000001/notes.txt")
    assert not has_results(store, JOB)


def test_what_a_dead_subtask_is_remembered_by_stays_while_the_job_runs(store: FakeStore) -> None:
    grave = DeadSubtask(epoch=1, subtask="train-000000", reason="boom", evidence=keys(1)[0])
    store.clock.advance(1000 * DAY)
    running = head(3, dead=(grave,))
    assert expire(store, running) == 5
    assert keys(1)[0] in store.snapshot()
    assert expire(store, running) == 0
    assert expire(store, running.model_copy(update={"state": "DEGRADED"})) == 4


def test_younger_epochs_are_not_asked_for(store: FakeStore) -> None:
    """A young object of an old epoch does not hide older ones; a young epoch ends the walk."""
    store.clock.advance((KEEP_DAYS - 2) * DAY + 1)
    store.put(keys(1, "train-000001")[0], b"x")
    store.put(keys(1, "evaluate-000000")[0], b"x")
    assert expire(store, head(4)) == 6
    assert keys(1, "train-000001")[0] in store.snapshot()
    assert set(keys(3)) <= set(store.snapshot())


def test_one_visit_deletes_a_bounded_number(
    store: FakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_AT_ONCE", 1)
    store.clock.advance(1000 * DAY)
    assert [expire(store, head(4)) for _ in range(4)] == [3, 3, 3, 0]


def test_versions_stay_and_the_audit_is_clean() -> None:
    bench = Bench()
    bench.start(2)
    bench.finish()
    versions = {key for key in bench.store.snapshot() if key.startswith("models/")}
    bench.clock.advance(31 * DAY)
    assert expire(bench.store, bench.head) > 0
    assert versions <= set(bench.store.snapshot())
    report = audit(bench.store, JOB)
    assert (report.findings, report.versions_without_inputs) == ((), report.versions)


def test_a_replay_goes_on_from_the_version_behind_the_gap() -> None:
    bench = Bench()
    bench.start(2)
    bench.aggregate(bench.trained(1, 0), bench.trained(1, 1))
    bench.aggregate(bench.evaluated(1))
    bench.clock.advance(31 * DAY)
    assert expire(bench.store, bench.head) > 0
    bench.aggregate(bench.trained(2, 0, 3.0))
    rebuilt = replay(bench.store, JOB, 2)
    assert rebuilt.same
    assert rebuilt.from_version == 1
