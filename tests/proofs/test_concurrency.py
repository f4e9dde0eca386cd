"""Eight aggregators at once, every event twice, in any order, in bad weather: a linear history."""

import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from spotgrad.aws.s3 import S3Store
from spotgrad.planning.standing import open_items
from spotgrad.protocol.head import WorkItem
from spotgrad.protocol.keys import ResultKey, SubtaskName
from spotgrad.protocol.result import Evaluated, Sum
from spotgrad.protocol.subtask import Subtask
from tests.builders import Bench, names
from tests.proofs.crowd import Events, Weather, aggregator, run_threads
from tests.proofs.history import check_history, merged

AGGREGATORS = 8
RESULTS = 64
EVERY = 4


@pytest.fixture(autouse=True)
def _quick_switches() -> Iterator[None]:
    """Let threads take turns 500 times as often as usual, so that they do meet."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


def all_of(epochs: range, shards: int) -> set[tuple[int, str]]:
    return {(epoch, f"train-{shard:06d}") for epoch in epochs for shard in range(shards)}


def trained(bench: Bench, shards: int) -> list[ResultKey]:
    """Start a job whose first epoch is all out; workers hand all of it in."""
    bench.start(shards, schedule={"max_in_flight": shards})
    bench.drain()
    return [bench.trained(1, shard, value=float(shard % 7)) for shard in range(shards)]


@pytest.mark.parametrize("seed", range(3))
def test_sixty_four_results_of_one_epoch(bench: Bench, seed: int) -> None:
    events, weather = Events(seed), Weather(EVERY)
    events.put(trained(bench, RESULTS))
    bench.store.on_write = weather.on_write
    run_threads(AGGREGATORS, aggregator(lambda: replace(bench.world), events))
    head = check_history(bench.store)
    assert merged(bench.store, head) == all_of(range(1, 2), RESULTS)
    assert bench.store.calls["delete"] == 0
    assert weather.struck["before"] > 1
    assert weather.struck["after"] > 1
    assert set(names(open_items(head))) <= set(names(bench.drain()))


def uploaded(bench: Bench, subtask: Subtask) -> list[ResultKey]:
    """Do the subtask as a worker would, from the latest version, if it is open."""
    item = WorkItem(epoch=subtask.epoch, subtask=subtask.subtask)
    if names([item])[0] not in names(open_items(bench.head)):
        return []
    if subtask.model is None:
        shard = SubtaskName.parse(item.subtask).shard or 0
        return [bench.trained(item.epoch, shard, value=float((shard + item.epoch) % 7))]
    model, sums = subtask.model, {"accuracy": Sum(total=5, count=10)}
    return [bench.put(item, Evaluated(version=model.version, commit=model.commit, sums=sums))]


@pytest.mark.parametrize("issue", ["barrier", "rolling"])
def test_four_epochs_of_sixteen_shards_with_workers_in_between(bench: Bench, issue: str) -> None:
    events, weather = Events(seed=4), Weather(EVERY)
    bench.start(16, epochs=4, schedule={"issue": issue})

    def work_off_the_queue() -> None:
        while messages := bench.queue.receive(most=3, wait_seconds=0):
            for message in messages:
                events.put(uploaded(bench, Subtask.from_json(message.body)))
                bench.queue.delete(message)

    work_off_the_queue()
    bench.store.on_write = weather.on_write
    run_threads(AGGREGATORS, aggregator(lambda: replace(bench.world), events, work_off_the_queue))
    head = check_history(bench.store)
    assert head.state == "SUCCEEDED"
    assert [one.epoch for one in head.evaluated] == [1, 2, 3, 4]
    assert merged(bench.store, head) == all_of(range(1, 5), 16)
    assert bench.store.calls["delete"] == 0


def test_four_aggregators_on_moto_behind_its_lock(s3_store: S3Store) -> None:
    """The adapter and its conditional writes over HTTP, instead of the fake."""
    bench, events = Bench(), Events(seed=5)
    keys = trained(bench, 16)
    for key, body in bench.store.snapshot().items():
        s3_store.put(key, body)
    events.put(keys)
    here = replace(bench.world, store=s3_store)
    run_threads(4, aggregator(lambda: replace(here), events))
    head = check_history(s3_store)
    assert merged(s3_store, head) == all_of(range(1, 2), 16)
