from datetime import timedelta

import pytest

from spotgrad.ports import ObjectInfo
from spotgrad.protocol.keys import AttemptKey
from spotgrad.steps.attempt_reader import AttemptReader, lasted
from tests.builders import Bench, train


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.start(4)
    return made


def info(bench: Bench, key: AttemptKey) -> ObjectInfo:
    (found,) = bench.store.list(key.render())
    return found


def gets(bench: Bench) -> int:
    return bench.store.calls["get"]


def test_a_record_is_fetched_again_when_it_was_written_again(bench: Bench) -> None:
    reader, head = AttemptReader(bench.store), bench.head
    key = bench.attempt(train(1, 0), seconds=5)
    before = gets(bench)
    first = reader.read(info(bench, key), head)
    assert reader.read(info(bench, key), head) == first
    assert gets(bench) == before + 1
    assert first is not None
    ended = first.model_copy(update={"outcome": "uploaded"})
    bench.store.put(key.render(), ended.to_json())
    assert reader.read(info(bench, key), head) == ended
    assert gets(bench) == before + 2


def test_what_is_damaged_gone_or_of_another_run_is_none(bench: Bench) -> None:
    reader, head = AttemptReader(bench.store), bench.head
    key = bench.attempt(train(1, 0))
    assert reader.read(info(bench, key), head.model_copy(update={"run": "ee" * 8})) is None
    assert reader.read(info(bench, key), head) is not None
    gone = info(bench, bench.attempt(train(1, 1)))
    bench.store.delete(gone.key)
    assert reader.read(gone, head) is None
    bench.store.put(key.render(), b"{}")
    assert reader.read(info(bench, key), head) is None


def test_memory_is_bounded(bench: Bench) -> None:
    reader, head = AttemptReader(bench.store, most=2), bench.head
    infos = [info(bench, bench.attempt(train(1, shard))) for shard in range(3)]
    before = gets(bench)
    for one in (*infos, infos[2], infos[0]):
        assert reader.read(one, head) is not None
    assert gets(bench) == before + 4


def test_a_clock_that_was_set_back_lasts_no_negative_time(bench: Bench) -> None:
    reader, head = AttemptReader(bench.store), bench.head
    for seconds, wanted in ((-50.0, 0), (7.0, 7)):
        record = reader.read(info(bench, bench.attempt(train(1, 0), seconds=seconds)), head)
        assert record is not None
        assert lasted(record) == timedelta(seconds=wanted)
