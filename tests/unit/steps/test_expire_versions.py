"""Old versions go, those that somebody may still ask for stay."""

from typing import Any

import pytest

from spotgrad.planning.standing import open_items
from spotgrad.protocol.keys import ModelKey, models_prefix
from spotgrad.steps import expire_versions as module
from spotgrad.steps.audit import audit
from spotgrad.steps.expire_versions import expire_versions
from spotgrad.steps.replay import replay
from tests.builders import JOB, Bench, train
from tests.fakes.store import FakeStore

HOUR = 3600.0


def left(store: FakeStore) -> list[int]:
    """The versions of which something is left."""
    prefix = models_prefix(JOB)
    found = [ModelKey.parse(key) for key in store.snapshot() if key.startswith(prefix)]
    return sorted({key.version for key in found})


def merged(bench: Bench, *shards: int, epoch: int = 1) -> None:
    """A version each."""
    for shard in shards:
        bench.aggregate(bench.trained(epoch, shard))


def expire(bench: Bench, keep: Any = 2) -> int:
    head = bench.head
    return expire_versions(bench.store, bench.world.attempts, head, keep, bench.clock.now())


def bench_of(**fields: Any) -> Bench:
    bench = Bench()
    bench.start(6, **fields)
    merged(bench, 0, 1, 2, 3)
    return bench


def test_the_last_ones_stay() -> None:
    bench = bench_of()
    bench.clock.advance(HOUR + 1)
    assert left(bench.store) == [0, 1, 2, 3, 4]
    assert expire(bench) == 3
    assert left(bench.store) == [3, 4]
    assert expire(bench) == 0
    assert audit(bench.store, JOB).findings == ()


@pytest.mark.parametrize("keep", ["all", 5, 6])
def test_what_is_kept_stays(keep: Any) -> None:
    bench = bench_of()
    bench.clock.advance(HOUR + 1)
    assert expire(bench, keep) == 0
    assert left(bench.store) == [0, 1, 2, 3, 4]


def test_a_job_without_a_version_has_nothing_to_lose() -> None:
    bench = Bench()
    bench.upload()
    bench.plan()
    assert expire(bench, 1) == 0


def test_a_version_stays_for_an_hour_after_the_next_was_made() -> None:
    """Who read the head before that may only now be writing its attempt record."""
    bench = Bench()
    bench.start(6)
    merged(bench, 0)
    bench.clock.advance(5 * HOUR)
    merged(bench, 1, 2)
    bench.clock.advance(HOUR - 1)
    assert expire(bench, 1) == 1
    assert left(bench.store) == [1, 2, 3]
    bench.clock.advance(2)
    assert expire(bench, 1) == 2
    assert left(bench.store) == [3]


def test_what_an_attempt_at_an_open_subtask_began_from_stays() -> None:
    bench = Bench()
    bench.start(6)
    merged(bench, 0)
    base = bench.base()
    bench.attempt(train(1, 4), base=base)
    merged(bench, 1, 2, 3)
    bench.clock.advance(HOUR + 1)
    expire(bench)
    assert left(bench.store) == [1, 3, 4]
    bench.aggregate(bench.trained(1, 4, base=base))
    assert bench.head.results_merged == 5
    bench.clock.advance(HOUR + 1)
    expire(bench)
    assert left(bench.store) == [4, 5]


def test_what_an_open_epoch_began_from_stays() -> None:
    bench = bench_of(merge={"rule": "vc-asgd", "start": "epoch"})
    bench.clock.advance(HOUR + 1)
    expire(bench, 1)
    assert left(bench.store) == [0, 4]


def test_what_is_being_evaluated_stays_and_so_does_the_final_version() -> None:
    bench = Bench()
    bench.start(2, epochs=2)
    merged(bench, 0, 1)
    merged(bench, 0, epoch=2)
    bench.clock.advance(HOUR + 1)
    expire(bench, 1)
    assert left(bench.store) == [2, 3]
    bench.aggregate(bench.evaluated(1, loss=0.5))
    expire(bench, 1)
    assert left(bench.store) == [3]
    merged(bench, 1, epoch=2)
    bench.aggregate(bench.evaluated(2, loss=0.5))
    assert bench.head.state == "SUCCEEDED"
    bench.clock.advance(HOUR + 1)
    expire(bench, 1)
    assert left(bench.store) == [4]


def test_what_the_head_names_stays_though_it_is_older() -> None:
    """A momentum that turns rarely is of an older version than the server copy."""
    merge = {"rule": "delayed-nesterov", "every": 3, "ema": 0.5}
    bench = bench_of(merge=merge)
    assert {ModelKey.parse(one.key).version for one in bench.head.objects.values()} == {3, 4}
    bench.clock.advance(HOUR + 1)
    expire(bench, 1)
    assert left(bench.store) == [3, 4]
    momentum = bench.head.objects["momentum"].key
    bench.store.get(momentum)
    merged(bench, 4, 5)
    assert audit(bench.store, JOB).findings == ()


def test_an_expired_version_is_rebuilt_from_what_is_left() -> None:
    bench = bench_of()
    bench.clock.advance(HOUR + 1)
    expire(bench, 1)
    assert replay(bench.store, JOB, 2).same


def test_one_visit_deletes_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_AT_ONCE", 2)
    bench = bench_of()
    bench.clock.advance(HOUR + 1)
    assert [expire(bench, 1) for _ in range(3)] == [2, 2, 0]


def test_reconcile_does_it_on_the_hour() -> None:
    bench = bench_of(keep={"versions": 2})
    assert len(list(open_items(bench.head))) == 2
    bench.clock.advance(2 * HOUR)
    bench.reconcile()
    assert left(bench.store) == [3, 4]
