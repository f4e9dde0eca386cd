from datetime import timedelta

import pytest

from spotgrad.protocol.attempt import Attempt
from spotgrad.protocol.keys import AttemptKey
from spotgrad.steps import measure_job as module
from spotgrad.steps.measure_job import measure_job
from tests.builders import JOB, Bench, train
from tests.fakes.clock import START

SHARDS = 2


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.start(SHARDS, evaluate=None, epochs=3)
    return made


def train_epoch(bench: Bench, epoch: int, began: float, *lasted: float) -> None:
    """Every shard trained by an attempt that began then and took so long."""
    for shard, seconds in enumerate(lasted):
        key = bench.attempt(train(epoch, shard), "uploaded")
        begin = START + timedelta(seconds=began)
        change(bench, key, started_at=begin, beat_at=begin + timedelta(seconds=seconds))
        bench.aggregate(bench.trained(epoch, shard))


def change(bench: Bench, key: AttemptKey, **fields: object) -> None:
    record = Attempt.from_json(bench.store.get(key.render()).body)
    bench.store.put(key.render(), record.model_copy(update=fields).to_json())


def test_of_a_job_that_is_not_there_nothing_is_known(bench: Bench) -> None:
    assert measure_job(bench.store, "another") is None


def test_of_a_job_that_has_not_trained_nothing_is_known(bench: Bench) -> None:
    bench.attempt(train(1, 0))
    bench.attempt(train(1, 1), "failed")
    assert measure_job(bench.store, JOB) is None


def test_one_epoch_tells_how_long_a_subtask_takes(bench: Bench) -> None:
    train_epoch(bench, 1, 0, 2, 4)
    found = measure_job(bench.store, JOB)
    assert found is not None
    assert (found.attempts, found.subtask_seconds, found.turnaround_seconds) == (2, 3, None)
    assert found.model_bytes == bench.head.objects["server"].size_bytes


def test_what_lies_between_two_attempts_of_a_worker_counts(bench: Bench) -> None:
    for shard, (worker, began, lasted) in enumerate(
        [("a", 0, 2), ("b", 0, 1), ("a", 3, 2), ("b", 31, 2), ("a", 5.5, 3)]
    ):
        begin = START + timedelta(seconds=began)
        end = begin + timedelta(seconds=lasted)
        key = bench.attempt(train(1, shard), "uploaded")
        change(bench, key, worker=worker, started_at=begin, beat_at=end)
    found = measure_job(bench.store, JOB)
    assert found is not None
    assert (found.attempt_seconds, found.gap_seconds) == (2, 1)  # of 1, 0.5 and 30
    assert found.subtask_seconds == 3


def test_only_results_of_this_run_count(bench: Bench) -> None:
    train_epoch(bench, 1, 0, 2, 4)
    bench.attempt(train(1, 0), "returned", seconds=99)
    bench.attempt(train(2, 0), seconds=99)
    foreign = bench.attempt(train(2, 1), "uploaded", seconds=99)
    change(bench, foreign, run="ee" * 8)
    found = measure_job(bench.store, JOB)
    assert found is not None
    assert found.subtask_seconds == 3


def test_several_epochs_tell_what_lies_between_them(bench: Bench) -> None:
    train_epoch(bench, 1, 0, 2, 4)
    train_epoch(bench, 2, 5, 3, 3)
    train_epoch(bench, 3, 8, 3, 3)
    found = measure_job(bench.store, JOB)
    assert found is not None
    assert (found.attempts, found.subtask_seconds) == (6, 3)
    assert found.turnaround_seconds == pytest.approx((1 + 0) / 2)


def test_the_newest_epochs_are_enough(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENOUGH", 2)
    train_epoch(bench, 1, 0, 2, 4)
    train_epoch(bench, 2, 5, 1, 1)
    found = measure_job(bench.store, JOB)
    assert found is not None
    assert (found.attempts, found.subtask_seconds) == (2, 1)


def test_a_job_before_its_first_version_has_no_size(bench: Bench) -> None:
    train_epoch(bench, 1, 0, 2, 4)
    bench.tamper(bench.head.model_copy(update={"objects": {}}))
    found = measure_job(bench.store, JOB)
    assert found is not None
    assert found.model_bytes is None
