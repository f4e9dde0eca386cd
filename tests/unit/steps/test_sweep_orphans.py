from collections.abc import Callable

import pytest

from spotgrad.protocol.keys import HeadKey, LedgerKey, ModelKey
from spotgrad.steps.audit import audit
from spotgrad.steps.chain import walk_back
from spotgrad.steps.sweep_orphans import GRACE, sweep_orphans
from tests.builders import JOB, Bench
from tests.fakes.store import Write

OLD = GRACE.total_seconds() + 1


def lose_to(bench: Bench, action: Callable[[], object]) -> None:
    """Let the next commit lose to ``action``."""

    def hook(write: Write) -> None:
        if (write.key, write.moment) == (HeadKey(JOB).render(), "before"):
            bench.store.on_write = None
            action()

    bench.store.on_write = hook


@pytest.fixture
def bench() -> Bench:
    """An ended job in which one commit of a merge was lost: a model file and a ledger entry."""
    made = Bench()
    made.start(2)
    mine, theirs = made.trained(1, 0), made.trained(1, 1)
    lose_to(made, lambda: made.aggregate(theirs))
    made.aggregate(mine)
    made.finish()
    return made


def sweep(bench: Bench) -> int:
    return sweep_orphans(bench.store, bench.head, bench.clock.now())


def named(bench: Bench) -> set[str]:
    walked = list(walk_back(bench.store, bench.head))
    return {key for key, _ in walked} | {entry.server.key for _, entry in walked if entry.server}


def written(bench: Bench) -> set[str]:
    prefixes = (f"models/{JOB}/", f"state/{JOB}/ledger/")
    return {info.key for prefix in prefixes for info in bench.store.list(prefix)}


def test_what_a_lost_commit_left_is_deleted_after_an_hour(bench: Bench) -> None:
    assert len(written(bench) - named(bench)) == 2
    bench.clock.advance(OLD - 1)
    assert sweep(bench) == 0
    bench.clock.advance(1)
    assert sweep(bench) == 2
    assert written(bench) == named(bench)
    assert audit(bench.store, JOB).findings == ()
    assert sweep(bench) == 0


def test_what_lies_beyond_the_head_is_deleted(bench: Bench) -> None:
    """A function that died between its model file and its commit."""
    beyond = [
        ModelKey(JOB, 5, "ee" * 8).render(),
        LedgerKey(JOB, bench.head.revision + 1, "ee" * 8).render(),
    ]
    for key in beyond:
        bench.store.put(key, b"")
    bench.clock.advance(OLD)
    assert sweep(bench) == 4
    assert not written(bench) & set(beyond)


def test_a_job_without_a_version_may_have_orphans_too() -> None:
    bench = Bench()
    bench.upload()
    bench.plan()
    bench.store.put(ModelKey(JOB, 0, "ee" * 8).render(), b"")
    bench.clock.advance(OLD)
    assert sweep(bench) == 1
    assert written(bench) == named(bench)


def test_other_objects_of_a_committed_version_stay(bench: Bench) -> None:
    model = bench.head.model
    if model is None:
        raise LookupError("no version")
    ema = ModelKey(JOB, model.version, model.commit, "ema").render()
    bench.store.put(ema, b"")
    bench.store.put(f"models/{JOB}/README", b"")
    bench.clock.advance(OLD)
    sweep(bench)
    assert {ema, f"models/{JOB}/README"} <= set(bench.store.snapshot())


def test_without_orphans_the_chain_is_not_read() -> None:
    bench = Bench()
    bench.start(2)
    bench.finish()
    bench.clock.advance(OLD)
    gets = bench.store.calls["get"]
    assert sweep_orphans(bench.store, bench.head, bench.clock.now()) == 0
    assert bench.store.calls["get"] == gets + 1  # bench.head


def test_the_chain_is_read_as_far_back_as_the_oldest_suspect() -> None:
    bench = Bench()
    bench.start(8)
    for shard in range(6):
        bench.aggregate(bench.trained(1, shard))
    version = bench.head.version
    bench.store.put(ModelKey(JOB, version or 0, "ee" * 8).render(), b"")
    bench.clock.advance(OLD)
    head, gets = bench.head, bench.store.calls["get"]
    assert sweep_orphans(bench.store, head, bench.clock.now()) == 1
    read = bench.store.calls["get"] - gets
    assert read == len([1 for _, entry in walk_back(bench.store, head) if entry.version == 6]) + 1
    assert written(bench) == named(bench)


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_broken_chain_deletes_nothing(bench: Bench, damage: str) -> None:
    key = list(walk_back(bench.store, bench.head))[1][0]
    if damage == "missing":
        bench.store.delete(key)
    else:
        bench.store.put(key, b"{}")
    bench.clock.advance(OLD)
    before = bench.store.snapshot()
    assert sweep(bench) == 0
    assert bench.store.snapshot() == before
