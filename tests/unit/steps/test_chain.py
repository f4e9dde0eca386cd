import pytest

from spotgrad.errors import Malformed, NotFound
from spotgrad.steps.chain import read_head, version_entries, walk_back
from tests.builders import JOB, Bench
from tests.fakes.store import FakeStore


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.start()
    made.aggregate(made.trained(1, 0), made.trained(1, 1))
    made.aggregate(made.trained(1, 2, samples=0))
    made.aggregate(made.trained(1, 2))
    return made


def test_a_job_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFound, match="there is no job 'digits' here"):
        read_head(FakeStore(), JOB)


def test_the_chain_goes_from_the_newest_commit_to_the_first(bench: Bench) -> None:
    head = read_head(bench.store, JOB)
    assert head == bench.head
    walked = list(walk_back(bench.store, head))
    assert [entry.revision for _, entry in walked] == list(range(head.revision, -1, -1))
    assert [key for key, _ in walked] == [
        head.ledger,
        *(entry.previous for _, entry in walked[:-1]),
    ]
    assert walked[-1][1].previous is None


def test_version_entries_are_those_that_made_one_the_first_first(bench: Bench) -> None:
    entries = version_entries(bench.store, bench.head)
    assert [entry.version for entry in entries] == [0, 1, 2]
    assert [len(entry.merged) for entry in entries] == [0, 2, 1]


def test_a_missing_link_is_named(bench: Bench) -> None:
    key = list(walk_back(bench.store, bench.head))[3][0]
    bench.store.delete(key)
    with pytest.raises(NotFound, match=key):
        list(walk_back(bench.store, bench.head))


def test_a_forged_chain_does_not_lead_in_circles(bench: Bench) -> None:
    key, first = list(walk_back(bench.store, bench.head))[-1]
    circle = first.model_copy(update={"previous": bench.head.ledger})
    bench.store.put(key, circle.to_json())
    with pytest.raises(Malformed, match=f"{bench.head.ledger}: revision .* follows itself"):
        list(walk_back(bench.store, bench.head))
