import pytest

from spotgrad.errors import Malformed, NotFound
from spotgrad.protocol.head import ObjectRef
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.steps.audit import audit
from spotgrad.steps.chain import version_entries
from spotgrad.steps.replay import replay
from tests.builders import JOB, Bench


@pytest.fixture
def bench() -> Bench:
    """Versions 0 to 3; version 2 holds two results."""
    made = Bench()
    made.start(value=0.5)
    made.aggregate(made.trained(1, 0, 1.0))
    made.aggregate(made.trained(1, 1, 2.0), made.trained(1, 2, 3.0))
    made.aggregate(made.trained(1, 3, 4.0))
    return made


def entry_of(bench: Bench, version: int) -> LedgerEntry:
    return version_entries(bench.store, bench.head)[version]


def server_of(bench: Bench, version: int) -> ObjectRef:
    server = entry_of(bench, version).server
    if server is None:
        raise LookupError(version)
    return server


@pytest.mark.parametrize(("version", "results"), [(0, 0), (1, 1), (2, 3), (3, 4)])
def test_every_version_is_rebuilt_bit_for_bit(bench: Bench, version: int, results: int) -> None:
    rebuilt = replay(bench.store, JOB, version)
    server = server_of(bench, version)
    assert rebuilt.body == bench.store.get(server.key).body
    assert rebuilt.same
    assert (rebuilt.version, rebuilt.sha256) == (version, server.sha256)
    assert (rebuilt.from_version, rebuilt.results) == (0, results)


def test_replay_needs_no_stored_version_while_results_are_there(bench: Bench) -> None:
    for version in range(4):
        bench.store.delete(server_of(bench, version).key)
    assert replay(bench.store, JOB, 3).same


def test_expired_results_move_the_start_to_the_stored_version_after_them(bench: Bench) -> None:
    bench.store.delete(entry_of(bench, 1).merged[0].key)
    rebuilt = replay(bench.store, JOB, 3)
    assert rebuilt.same
    assert (rebuilt.from_version, rebuilt.results) == (1, 3)


def test_an_expired_version_on_the_way_moves_the_start_further(bench: Bench) -> None:
    bench.store.delete(entry_of(bench, 1).merged[0].key)
    bench.store.delete(server_of(bench, 1).key)
    rebuilt = replay(bench.store, JOB, 3)
    assert rebuilt.same
    assert (rebuilt.from_version, rebuilt.results) == (2, 1)


def test_the_inputs_of_the_version_itself_must_be_there(bench: Bench) -> None:
    key = entry_of(bench, 2).merged[1].key
    bench.store.delete(key)
    with pytest.raises(NotFound, match=key):
        replay(bench.store, JOB, 2)
    assert replay(bench.store, JOB, 3).from_version == 2


@pytest.mark.parametrize("version", [-1, 4])
def test_a_version_that_there_never_was_is_named(bench: Bench, version: int) -> None:
    with pytest.raises(
        NotFound, match=f"job digits: there is no version {version}; the latest is 3"
    ):
        replay(bench.store, JOB, version)


def test_a_job_without_versions_or_no_job_at_all() -> None:
    bench = Bench()
    with pytest.raises(NotFound, match="there is no job 'digits' here"):
        replay(bench.store, JOB, 0)
    bench.upload()
    bench.plan()
    with pytest.raises(NotFound, match="there is no version 0; it has none yet"):
        replay(bench.store, JOB, 0)


def test_a_tampered_result_is_malformed(bench: Bench) -> None:
    key = entry_of(bench, 1).merged[0].key
    bench.store.put(key, bench.store.get(key).body[:-1] + b"\x07")
    with pytest.raises(Malformed, match=f"{key}: its bytes are not those that were merged"):
        replay(bench.store, JOB, 2)


def test_a_tampered_version_is_no_start(bench: Bench) -> None:
    bench.store.delete(entry_of(bench, 1).merged[0].key)
    bench.store.put(server_of(bench, 1).key, b"something else")
    with pytest.raises(Malformed, match="version 1: its stored bytes are not those committed"):
        replay(bench.store, JOB, 3)


def test_a_tampered_first_result_shows_in_the_answer(bench: Bench) -> None:
    first = entry_of(bench, 0).initialized_from
    if first is None:
        raise LookupError("version 0")
    body = bench.store.get(first.key).body
    bench.store.put(first.key, body[:-3] + b"\x01" + body[-2:])
    rebuilt = replay(bench.store, JOB, 3)
    assert not rebuilt.same
    assert rebuilt.committed_sha256 == server_of(bench, 3).sha256


def test_what_a_rule_keeps_is_bridged_by_the_stored_objects_too() -> None:
    """The first result has expired: the buffer that it went into is stored."""
    bench = Bench()
    bench.start(merge={"rule": "fedbuff", "size": 2})
    bench.aggregate(bench.trained(1, 0, 1.0))
    lost = bench.entry
    bench.aggregate(bench.trained(1, 1, 2.0))
    bench.store.delete(lost.merged[0].key)
    rebuilt = replay(bench.store, JOB, 1)
    assert rebuilt.same
    assert (rebuilt.from_version, rebuilt.results) == (0, 1)
    assert audit(bench.store, JOB).findings == ()
    bench.store.delete(lost.objects["buffer"].key)
    with pytest.raises(NotFound, match="version 1: the buffer before it is not retained"):
        replay(bench.store, JOB, 1)
