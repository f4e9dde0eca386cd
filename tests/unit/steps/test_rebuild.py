import pytest

from spotgrad.errors import Malformed, NotFound
from spotgrad.protocol.keys import ResultKey
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.protocol.result import Failed
from spotgrad.protocol.tensors import decode
from spotgrad.steps.chain import version_entries
from spotgrad.steps.rebuild import rebuild
from spotgrad.steps.shelf import Shelf
from tests.builders import Bench, put_result, tensors


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.start(value=0.25)
    made.aggregate(made.trained(1, 0, 1.0), made.trained(1, 1, 3.0))
    return made


def entries(bench: Bench) -> list[LedgerEntry]:
    return version_entries(bench.store, bench.head)


def stored(bench: Bench, version: int) -> bytes:
    server = entries(bench)[version].server
    if server is None:
        raise LookupError(version)
    return bench.store.get(server.key).body


def start(bench: Bench) -> Shelf:
    shelf = Shelf(bench.store, entries(bench))
    shelf.put(entries(bench)[0], {"server": stored(bench, 0)})
    return shelf


def empty(bench: Bench) -> Shelf:
    return Shelf(bench.store, entries(bench))


def test_each_version_is_rebuilt_bit_for_bit(bench: Bench) -> None:
    first, second = entries(bench)
    assert rebuild(bench.store, first, empty(bench)) == {"server": stored(bench, 0)}
    assert rebuild(bench.store, second, start(bench)) == {"server": stored(bench, 1)}


def test_the_recorded_coefficients_are_applied_not_the_rule_s(bench: Bench) -> None:
    entry = entries(bench)[1]
    rows = tuple(row.model_copy(update={"coefficient": 0.25}) for row in entry.merged)
    entry = entry.model_copy(update={"merged": rows, "server_coefficient": 0.0})
    weight = decode(rebuild(bench.store, entry, start(bench))["server"]).tensors["weight"]
    assert weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_an_expired_input_is_not_found(bench: Bench) -> None:
    entry = entries(bench)[1]
    with pytest.raises(NotFound, match="version 1: the version before it is not retained"):
        rebuild(bench.store, entry, empty(bench))
    bench.store.delete(entry.merged[1].key)
    with pytest.raises(NotFound, match=entry.merged[1].key):
        rebuild(bench.store, entry, start(bench))


def test_a_tampered_result_is_malformed(bench: Bench) -> None:
    entry = entries(bench)[1]
    row = entry.merged[0]
    key = ResultKey.parse(row.key)
    put_result(bench.store, key, Failed(error="x", traceback=""), tensors(9.0))
    with pytest.raises(Malformed, match=f"{row.key}: its bytes are not those that were merged"):
        rebuild(bench.store, entry, start(bench))


def test_a_first_version_must_come_from_initialize(bench: Bench) -> None:
    entry = entries(bench)[0]
    if entry.initialized_from is None:
        raise LookupError(entry)
    key = ResultKey.parse(entry.initialized_from.key)
    put_result(bench.store, key, Failed(error="x", traceback=""), tensors())
    with pytest.raises(Malformed, match="it is no result of initialize"):
        rebuild(bench.store, entry, empty(bench))


def test_an_entry_that_merges_nothing_names_no_version(bench: Bench) -> None:
    entry = entries(bench)[1].model_copy(update={"server_coefficient": None})
    with pytest.raises(Malformed, match="it merges nothing, yet names a version"):
        rebuild(bench.store, entry, start(bench))
