from datetime import timedelta

import pytest

from spotgrad.errors import StoreUnavailable
from spotgrad.protocol.attempt import Attempt
from spotgrad.protocol.result import Base
from spotgrad.protocol.subtask import Subtask
from tests.fakes.clock import START, FakeClock
from tests.fakes.faults import Fault
from tests.fakes.store import FakeStore
from tests.worker_image.world import COMMIT, RUN
from worker_image.attempts import AttemptRecord, Author

KEY = "attempts/tiny-job/000002/train-000001/00000000000000aa.json"


def record(store: FakeStore, clock: FakeClock) -> AttemptRecord:
    return AttemptRecord(
        store,
        clock,
        Subtask(job="tiny-job", run=RUN, epoch=2, subtask="train-000001"),
        attempt="00000000000000aa",
        author=Author("w", lease_seconds=30),
        base=Base(version=3, commit=COMMIT, results_merged=7),
    )


def test_a_record_begins_beats_and_ends_under_one_key() -> None:
    clock = FakeClock()
    store = FakeStore(clock)
    attempt = record(store, clock)
    assert store.snapshot() == {}
    seen = []
    for step in (attempt.beat, attempt.beat, lambda: attempt.end("uploaded")):
        step()
        seen.append(Attempt.from_json(store.get(KEY).body))
        clock.advance(10)
    assert list(store.snapshot()) == [KEY]
    assert [each.outcome for each in seen] == [None, None, "uploaded"]
    assert [each.beat_at - START for each in seen] == [timedelta(seconds=s) for s in (0, 10, 20)]
    assert {each.started_at for each in seen} == {START}
    assert seen[0].base == Base(version=3, commit=COMMIT, results_merged=7)
    assert (seen[0].job, seen[0].run, seen[0].worker) == ("tiny-job", RUN, "w")
    assert {each.lease_seconds for each in seen} == {30}


def test_an_end_that_cannot_be_written_is_no_error_but_a_beat_is() -> None:
    store = FakeStore()
    attempt = record(store, store.clock)
    store.faults.order(Fault.UNAVAILABLE, operation="put", times=2)
    with pytest.raises(StoreUnavailable):
        attempt.beat()
    attempt.end("failed")
    assert store.snapshot() == {}


def test_an_attempt_that_goes_on_from_another_version_says_so() -> None:
    store = FakeStore()
    attempt = record(store, store.clock)
    older = Base(version=2, commit=COMMIT, results_merged=5)
    attempt.rebase(older)
    attempt.beat()
    attempt.end("uploaded")
    found = Attempt.from_json(store.get(KEY).body)
    assert (found.base, found.outcome) == (older, "uploaded")
