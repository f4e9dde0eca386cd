"""How a result stands to those that its check has heard."""

from math import inf
from typing import Any

import numpy as np
import pytest

from spotgrad.protocol.keys import ResultKey
from spotgrad.protocol.result import Base, Trained
from spotgrad.steps.arrival import Arrival
from spotgrad.steps.compare_results import compared
from spotgrad.steps.read_results import load_result
from tests.builders import LEASE_SECONDS, ROLES, Bench, put_result, tensors, train


def bench_with_check() -> tuple[Bench, ResultKey]:
    """Two shards; the first is merged and out again."""
    bench = Bench()
    quorum = {"share": 1.0}
    bench.upload(2, workers={"max": 3}, admission={"norm": "off", "quorum": quorum})
    bench.plan()
    bench.aggregate(bench.initialized())
    first = bench.trained(1, 0, 4.0)
    bench.aggregate(first)
    return bench, first


def arrival_of(bench: Bench, key: ResultKey) -> Arrival:
    loaded = load_result(bench.store, bench.world.models, key)
    assert loaded is not None
    return compared(bench.store, bench.world.models, bench.head.checks[0], loaded)


def second(bench: Bench, body: Any) -> ResultKey:
    model = bench.head.checks[0].model
    base = Base(version=model.version, commit=model.commit, results_merged=0)
    return bench.trained(1, 0, base=base, body=body)


@pytest.mark.parametrize(("value", "away"), [(4.0, 0.0), (2.0, 0.5), (-4.0, 2.0)])
def test_the_distance_is_a_share_of_the_longer_update(value: float, away: float) -> None:
    bench, _ = bench_with_check()
    found = arrival_of(bench, second(bench, tensors(value))).apart
    assert found is not None
    assert list(found) == pytest.approx([away])


def test_what_the_gate_refuses_is_far_from_everything() -> None:
    bench, _ = bench_with_check()
    assert arrival_of(bench, second(bench, tensors(np.nan))).apart == (inf,)


def test_with_the_first_result_gone_there_is_nothing_to_compare() -> None:
    bench, first = bench_with_check()
    bench.store.delete(first.render())
    assert arrival_of(bench, second(bench, tensors(4.0))).apart is None


def test_aggregate_compares_and_merges_nothing_again() -> None:
    bench, first = bench_with_check()
    version = bench.head.version
    assert bench.aggregate(first).merged == 0  # its event came twice: no opinion of its own
    assert bench.head.checks
    done = bench.aggregate(_by(bench, "worker-b", 4.0))
    assert (done.merged, bench.head.checks, bench.head.version) == (0, (), version)
    assert [row.reason for row in bench.entry.compared] == ["agrees with worker-a"]


def test_what_a_quarantined_worker_brings_costs_its_subtask_nothing() -> None:
    bench, _ = bench_with_check()
    bench.tamper(bench.head.model_copy(update={"dissent": {"worker-a": 2}}))
    bench.drain()
    barred = bench.trained(1, 1)
    done = bench.aggregate(barred)
    assert [row.reason for row in done.refused] == [
        "worker worker-a is quarantined: its results were outvoted"
    ]
    assert [one.subtask for one in bench.drain()] == ["train-000001"]
    (fault,) = bench.head.faults
    assert (fault.refused, fault.forgiven) == ((), (barred.attempt,))
    assert bench.aggregate(barred).refused == ()


def test_reconcile_sends_a_check_again_and_gives_it_up() -> None:
    bench, _ = bench_with_check()
    bench.drain()
    bench.attempt(train(1, 1))
    bench.clock.advance(2 * LEASE_SECONDS + 1)
    bench.reconcile()
    assert "train-000000" in [one.subtask for one in bench.drain()]
    bench.clock.advance(3601)
    bench.reconcile()
    assert bench.head.checks == ()


def _by(bench: Bench, worker: str, value: float) -> ResultKey:
    model = bench.head.checks[0].model
    base = Base(version=model.version, commit=model.commit, results_merged=0)
    said = Trained(base=base, samples=1, roles=ROLES)
    key = bench.result_key(train(1, 0))
    return put_result(bench.store, key, said, tensors(value), worker=worker, run=bench.head.run)
