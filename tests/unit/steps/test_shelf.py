"""Bases are kept as long as they are needed, and read where they were not rebuilt."""

import pytest

from spotgrad.errors import Malformed, NotFound
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.steps.chain import writing_entries
from spotgrad.steps.shelf import Shelf
from tests.builders import Bench


@pytest.fixture
def bench() -> Bench:
    """Shard 2 was trained from version 0 and merged third."""
    made = Bench()
    made.start(merge={"rule": "damped-delta"})
    late = made.trained(1, 2, 5.0)
    made.aggregate(made.trained(1, 0, 1.0))
    made.aggregate(made.trained(1, 1, 2.0))
    made.aggregate(late)
    return made


def entries(bench: Bench) -> list[LedgerEntry]:
    return writing_entries(bench.store, bench.head)


def bodies(bench: Bench, entry: LedgerEntry) -> dict[str, bytes]:
    return {name: bench.store.get(one.key).body for name, one in entry.written.items()}


def test_a_version_is_kept_until_the_last_result_that_began_from_it(bench: Bench) -> None:
    every = entries(bench)
    shelf = Shelf(bench.store, every)
    base = every[3].base_key(0)
    assert every[3].base_keys == (base,)
    shelf.put(every[0], bodies(bench, every[0]))
    kept = shelf.version(base)
    bench.store.delete(base)
    for entry in every[1:3]:
        shelf.put(entry, bodies(bench, entry))
        assert shelf.version(base) is kept
    shelf.put(every[3], bodies(bench, every[3]))
    with pytest.raises(NotFound):
        shelf.version(base)


def test_a_version_that_was_not_rebuilt_is_read_and_checked(bench: Bench) -> None:
    every = entries(bench)
    shelf, base = Shelf(bench.store, every), every[3].base_key(0)
    assert shelf.version(base).tensors["weight"].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    bench.store.put(base, b"something else")
    with pytest.raises(Malformed, match=f"{base}: its bytes are not those that were committed"):
        shelf.version(base)


def test_what_a_commit_lost_is_not_there_and_what_it_drops_is_gone(bench: Bench) -> None:
    entry = entries(bench)[1]
    shelf = Shelf(bench.store, [])
    shelf.put(entry, {})
    assert shelf.current == {"server": None}
    shelf.current["buffer"] = None
    recipe = entry.followed
    if recipe is None:
        raise LookupError(entry)
    dropping = recipe.model_copy(update={"drops": ("buffer",)})
    shelf.put(entry.model_copy(update={"recipe": dropping}), bodies(bench, entry))
    assert shelf.current.keys() == {"server"}
