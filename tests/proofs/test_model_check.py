"""The commit protocol, model-checked: two aggregators, two results, in every interleaving.

With duplicates, a crash and a lost answer. What runs is the product's own ``aggregate_results``,
one request at a time (``machine``); what must hold is in ``judge``; that the check can fail is
shown on protocols that are broken on purpose (``broken``).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from typing import Any

import pytest

from spotgrad.ports import ObjectReader
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import ResultKey
from spotgrad.protocol.plan import JobPlan
from spotgrad.steps import aggregate_results as product
from spotgrad.steps.arrival import Arrival
from spotgrad.steps.audit import audit
from spotgrad.steps.decide_results import Decision, decide_results
from spotgrad.steps.model_file import ModelReader
from spotgrad.steps.read_results import LoadedResult, load_result
from tests.builders import JOB, Bench, names, train
from tests.fakes.store import FakeStore
from tests.proofs.broken import BROKEN, Patch
from tests.proofs.explorer import Explored, Explorer
from tests.proofs.judge import Judge, Violation
from tests.proofs.machine import HEAD, Known, next_of, one_lap

RESULTS = (train(1, 0), train(1, 1))


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a step end after one lap; read each result, and make each decision, once per test."""
    loaded: dict[ResultKey, LoadedResult | None] = {}
    decided: dict[str, Decision | None] = {}

    def load_once(store: ObjectReader, models: ModelReader, key: ResultKey) -> LoadedResult | None:
        if key not in loaded:
            loaded[key] = load_result(store, models, key)
        return loaded[key]

    def decide_once(
        head: Head, plan: JobPlan, arrivals: Sequence[Arrival], *, commit: str, now: datetime
    ) -> Decision | None:
        if commit not in decided:  # a machine's id is drawn from the head and the batch
            decided[commit] = decide_results(head, plan, arrivals, commit=commit, now=now)
        return decided[commit]

    for model in (Head, JobPlan):
        monkeypatch.setattr(model, "from_json", lru_cache(model.from_json))
    monkeypatch.setattr(product, "decide_results", decide_once)
    monkeypatch.setattr(product, "until_committed", one_lap)
    monkeypatch.setattr(product, "load_result", load_once)


def known_job(issue: str) -> tuple[Known, partial[Any]]:
    """Version 0 is committed, epoch 1 is out, and both of its results have been uploaded."""
    bench = Bench()
    bench.start(len(RESULTS), schedule={"issue": issue})
    keys = tuple(bench.work(item, value=1.0 + number) for number, item in enumerate(RESULTS))
    objects = bench.store.snapshot()
    known = Known({key: body for key, body in objects.items() if key != HEAD})
    known.number(objects[HEAD])
    return known, partial(next_of, known, keys)


@dataclass(frozen=True)
class Bounds:
    """How much the environment may do."""

    issue: str = "barrier"
    deliveries: tuple[int, int] = (2, 2)
    crashes: int = 1
    lost_answers: int = 1


def explore(bounds: Bounds, *, forgetful: bool = True) -> tuple[Known, Explored]:
    known, following = known_job(bounds.issue)
    explorer = Explorer(following, Judge(known), names(RESULTS), forgetful=forgetful)
    start = explorer.start(0, bounds.deliveries, bounds.crashes, bounds.lost_answers)
    return known, explorer.explore(start)


@pytest.mark.parametrize(
    ("bounds", "at_least"),
    [
        pytest.param(Bounds(), 250_000, id="barrier"),
        pytest.param(Bounds("rolling", (2, 1), lost_answers=0), 20_000, id="rolling-crash"),
        pytest.param(Bounds("rolling", (2, 1), crashes=0), 20_000, id="rolling-lost-answer"),
    ],
)
def test_every_interleaving_keeps_the_promises(bounds: Bounds, at_least: int) -> None:
    known, explored = explore(bounds)
    assert explored.states >= at_least, explored
    assert explored.ends > 0
    store = FakeStore()
    for key, body in known.objects.items():
        store.put(key, body)
    for number in explored.final_heads:
        store.put(HEAD, known.heads[number])
        assert audit(store, JOB).findings == ()


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_protocol_is_caught(
    broken: Callable[[], Iterator[Patch]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for where, name, instead in broken():
        monkeypatch.setattr(where, name, instead)
    with pytest.raises(Violation, match=BROKEN[broken]):
        explore(Bounds("rolling"), forgetful=False)
