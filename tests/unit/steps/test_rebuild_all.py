import pytest

from spotgrad.protocol.head import ObjectRef
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.steps.chain import version_entries, walk_back
from spotgrad.steps.rebuild_all import Rebuilding, rebuild_all
from tests.builders import Bench


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.start()
    for shard in range(3):
        made.aggregate(made.trained(1, shard, shard + 1.0))
    return made


def all_rebuilt(bench: Bench) -> Rebuilding:
    entries = [entry for _, entry in walk_back(bench.store, bench.head)]
    return rebuild_all(bench.store, entries[::-1])


def entry_of(bench: Bench, version: int) -> LedgerEntry:
    return version_entries(bench.store, bench.head)[version]


def server_of(bench: Bench, version: int) -> ObjectRef:
    server = entry_of(bench, version).server
    if server is None:
        raise LookupError(version)
    return server


def flip(bench: Bench, key: str) -> None:
    body = bench.store.get(key).body
    bench.store.put(key, body[:-1] + bytes([body[-1] ^ 1]))


def test_every_version_of_a_good_job_is_rebuilt(bench: Bench) -> None:
    assert all_rebuilt(bench) == Rebuilding(rebuilt=4, without_inputs=0, findings=[])


def test_no_versions_are_no_finding() -> None:
    assert rebuild_all(Bench().store, []) == Rebuilding()


def test_expired_results_are_bridged_by_the_stored_version(bench: Bench) -> None:
    bench.store.delete(entry_of(bench, 1).merged[0].key)
    assert all_rebuilt(bench) == Rebuilding(rebuilt=3, without_inputs=1, findings=[])


def test_after_an_expired_version_the_next_has_no_inputs_either(bench: Bench) -> None:
    bench.store.delete(entry_of(bench, 1).merged[0].key)
    bench.store.delete(server_of(bench, 1).key)
    assert all_rebuilt(bench) == Rebuilding(rebuilt=2, without_inputs=2, findings=[])


def test_an_expired_version_can_still_be_rebuilt(bench: Bench) -> None:
    bench.store.delete(server_of(bench, 1).key)
    assert all_rebuilt(bench) == Rebuilding(rebuilt=4, without_inputs=0, findings=[])


def test_the_newest_version_must_be_there(bench: Bench) -> None:
    key = server_of(bench, 3).key
    bench.store.delete(key)
    assert all_rebuilt(bench).findings == [f"version 3: {key} is gone"]


def test_a_tampered_version_is_found_and_does_not_spoil_the_next(bench: Bench) -> None:
    key = server_of(bench, 1).key
    flip(bench, key)
    found = all_rebuilt(bench)
    assert found.findings == [f"version 1: {key} is not what was committed"]
    assert found.rebuilt == 4


def test_a_version_of_garbage_is_a_finding_not_an_error(bench: Bench) -> None:
    entry = entry_of(bench, 1)
    bench.store.delete(entry.merged[0].key)
    key = server_of(bench, 1).key
    bench.store.put(key, b"garbage")
    found = all_rebuilt(bench)
    assert found.findings == [f"version 1: {key} is not what was committed"]
    assert (found.rebuilt, found.without_inputs) == (2, 2)


def test_a_tampered_result_is_found(bench: Bench) -> None:
    key = entry_of(bench, 2).merged[0].key
    flip(bench, key)
    found = all_rebuilt(bench)
    assert found.findings == [
        f"version 2 cannot be rebuilt: {key}: its bytes are not those that were merged"
    ]
    assert found.rebuilt == 3


def test_an_entry_that_describes_another_merge_is_found(bench: Bench) -> None:
    entries = version_entries(bench.store, bench.head)
    rows = tuple(row.model_copy(update={"coefficient": 0.25}) for row in entries[1].merged)
    entries[1] = entries[1].model_copy(update={"merged": rows})
    found = rebuild_all(bench.store, entries)
    assert found.findings == ["version 1 is not the merge that its entry describes"]
    assert found.rebuilt == 4
