"""Which versions expire, which never do, and that what is left still proves itself."""

from typing import Any

import pytest

from spotgrad.errors import NotFound
from spotgrad.protocol.attempt import Attempt
from spotgrad.protocol.head import Check, DeadSubtask, Evaluation, EvaluationProgress
from spotgrad.protocol.keys import AttemptKey, ModelKey
from spotgrad.protocol.result import Base
from spotgrad.protocol.subtask import ModelRef
from spotgrad.steps import expire_versions as module
from spotgrad.steps.audit import audit
from spotgrad.steps.expire_results import expire_results
from spotgrad.steps.expire_versions import expire_versions
from spotgrad.steps.replay import replay
from tests.builders import JOB, Bench, train
from tests.fakes.clock import START
from tests.unit.cli.jobs import epoch

HOUR = 3600.0


def bench_with_versions(**fields: Any) -> Bench:
    """Versions 0 to 6, ten minutes apart; all eight subtasks of the epoch are out."""
    bench = Bench()
    bench.upload(8, schedule={"max_in_flight": 8}, **fields)
    bench.plan()
    bench.aggregate(bench.initialized())
    for shard in range(6):
        bench.clock.advance(600)
        bench.aggregate(bench.trained(1, shard, float(shard)))
    return bench


def expire(bench: Bench, newest: int = 2) -> int:
    now = bench.clock.now()
    return expire_versions(bench.store, bench.world.attempts, bench.head, newest, now)


def left(bench: Bench) -> list[int]:
    keys = [ModelKey.parse(key) for key in bench.store.snapshot() if key.startswith("models/")]
    return sorted(key.version for key in keys)


def reference(bench: Bench, version: int) -> ModelRef:
    keys = [key for key in bench.store.snapshot() if key.startswith(f"models/{JOB}/{version:08d}")]
    return ModelRef(version=version, commit=ModelKey.parse(keys[0]).commit, key=keys[0])


def test_versions_beyond_the_newest_go_an_hour_after_they_left_them() -> None:
    bench = bench_with_versions()
    assert expire(bench) == 0
    bench.clock.advance(HOUR - 1800 + 1)  # version 3 has been there for an hour
    assert expire(bench) == 2
    assert left(bench) == [2, 3, 4, 5, 6]
    bench.clock.advance(HOUR)
    assert expire(bench) == 3
    assert left(bench) == [5, 6]
    assert expire(bench) == 0


def test_a_young_job_has_nothing_to_expire() -> None:
    bench = Bench()
    bench.upload(2)
    bench.plan()
    bench.clock.advance(9 * HOUR)
    assert expire(bench) == 0
    bench.aggregate(bench.initialized())
    bench.clock.advance(9 * HOUR)
    assert expire(bench, 1) == 0


def test_whatever_the_head_names_stays() -> None:
    bench = bench_with_versions()
    bench.clock.advance(2 * HOUR)
    one = [reference(bench, version) for version in range(5)]
    grave = DeadSubtask(epoch=1, subtask="evaluate-000000", reason="boom", model=one[0])
    measuring = EvaluationProgress(epoch=1, model=one[2], subtasks=1, issued_at=START)
    changes: dict[str, Any] = {
        "dead": (grave,),
        "evaluated": (Evaluation(epoch=1, model=one[1], metrics={}),),
        "evaluations": (measuring,),
        "checks": (
            Check(
                epoch=1,
                subtask="train-000000",
                model=one[0],
                opinions=(),
                begun_at=START,
                sent_at=START,
            ),
        ),
        "late": (epoch(1, issued=[0]).model_copy(update={"start": one[3]}),),
        "objects": bench.head.objects
        | {"momentum": bench.head.objects["server"].model_copy(update={"key": one[4].key})},
    }
    bench.tamper(bench.head.model_copy(update=changes))
    assert expire(bench) == 0
    bench.tamper(
        bench.head.model_copy(update={"final": one[1], "evaluated": (), "late": (), "dead": ()})
    )
    assert expire(bench) == 1
    assert left(bench) == [0, 1, 2, 4, 5, 6]


@pytest.mark.parametrize("outcome", [None, "uploaded", "returned"])
def test_what_an_open_subtask_began_from_stays(outcome: Any) -> None:
    """Its result may still come; that of a merged subtask may not."""
    bench = bench_with_versions()
    for one, version in ((train(1, 7), 1), (train(1, 0), 2)):
        key = bench.attempt(one, outcome)
        began = reference(bench, version)
        base = Base(version=version, commit=began.commit, results_merged=version)
        _change_attempt(bench, key, base)
    bench.attempt(train(1, 6))  # from nothing
    bench.store.put(AttemptKey(JOB, 1, "train-000006", "beefbeef").render(), b"damaged")
    bench.clock.advance(2 * HOUR)
    assert expire(bench) == 4
    assert left(bench) == [1, 5, 6]
    late = bench.trained(1, 7, base=_base(bench, 1))
    assert bench.aggregate(late).merged == 1


def _base(bench: Bench, version: int) -> Base:
    commit = reference(bench, version).commit
    return Base(version=version, commit=commit, results_merged=version)


def _change_attempt(bench: Bench, key: AttemptKey, base: Base) -> None:
    record = Attempt.from_json(bench.store.get(key.render()).body)
    bench.store.put(key.render(), record.model_copy(update={"base": base}).to_json())


def test_one_visit_deletes_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_AT_ONCE", 2)
    bench = bench_with_versions()
    bench.clock.advance(2 * HOUR)
    assert [expire(bench) for _ in range(4)] == [2, 2, 1, 0]


def test_with_their_results_expired_versions_are_rebuilt() -> None:
    bench = bench_with_versions()
    bench.clock.advance(2 * HOUR)
    assert expire(bench) == 5
    report = audit(bench.store, JOB)
    assert (report.findings, report.versions_rebuilt) == ((), 7)
    assert replay(bench.store, JOB, 2).same


def test_without_them_a_replay_says_what_it_started_from() -> None:
    """All results of epoch 1 are gone, and the versions before the one that closed it."""
    bench = bench_with_versions(epochs=2)
    bench.aggregate(bench.trained(1, 6), bench.trained(1, 7))
    bench.aggregate(bench.evaluated(1))
    bench.clock.advance(31 * 24 * HOUR)
    assert expire_results(bench.store, bench.head, 30, bench.clock.now()) > 0
    bench.aggregate(bench.trained(2, 0, 3.0))
    bench.clock.advance(2 * HOUR)
    assert expire(bench) == 7
    assert left(bench) == [7, 8]
    rebuilt = replay(bench.store, JOB, 8)
    assert (rebuilt.same, rebuilt.from_version, rebuilt.results) == (True, 7, 1)
    with pytest.raises(NotFound):
        replay(bench.store, JOB, 3)
    report = audit(bench.store, JOB)
    assert (report.findings, report.versions_rebuilt) == ((), 1)
    assert report.versions_without_inputs == 8


def test_reconcile_does_it_by_the_job_file() -> None:
    bench = bench_with_versions(keep={"versions": 1})
    for shard in (6, 7):
        bench.aggregate(bench.trained(1, shard))
    bench.finish()
    bench.clock.advance(2 * HOUR)
    bench.reconcile()
    kept = {one.model.version for one in bench.head.evaluated} | {bench.head.version}
    assert set(left(bench)) == kept
    assert audit(bench.store, JOB).findings == ()
