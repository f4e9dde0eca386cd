"""A batch is the sequence of its single merges, for every rule; and what each rule promises."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotgrad.protocol.recipe import Closing
from tests.unit.merging.stage import Result, Stage, spec_of
from tests.unit.merging.trajectories import CASES

PER_RULE = [name for name in CASES if name != "ema"]
CONVEX = ["fedasync", "fedasync_hinge", "easgd"]


def results(seed: int, began: Sequence[int], scale: float = 0.1) -> list[Result]:
    """Results near zero whose bases held so many results."""
    draw = np.random.default_rng(seed)
    return [
        Result(
            epoch=1 + place // 3,
            began=held,
            samples=int(draw.integers(1, 200)),
            tensors={
                "w": (scale * draw.standard_normal(30)).astype(np.float32),
                "bn": draw.random(4).astype(np.float32),
            },
        )
        for place, held in enumerate(began)
    ]


def stage_of(merge: dict[str, Any], seed: int, in_flight: int = 8) -> Stage:
    draw = np.random.default_rng(seed)
    first = {"w": draw.standard_normal(30) * 0.1, "bn": draw.random(4)}
    tensors = {name: each.astype(np.float32) for name, each in first.items()}
    return Stage(spec_of(in_flight, **merge), tensors)


def forked(stage: Stage) -> Stage:
    """A copy that may go its own way; arrays are never changed in place."""
    fork = copy.copy(stage)
    fork.objects, fork.versions = dict(stage.objects), dict(stage.versions)
    fork.recipes = list(stage.recipes)
    return fork


@settings(max_examples=25)
@pytest.mark.parametrize("name", PER_RULE)
@given(
    before=st.integers(0, 5),
    count=st.integers(1, 9),
    seed=st.integers(0, 2**16),
    closes=st.sampled_from([None, "round", "rest"]),
    data=st.data(),
)
def test_a_batch_equals_its_single_merges(
    name: str, before: int, count: int, seed: int, closes: Closing | None, data: st.DataObject
) -> None:
    together = stage_of(CASES[name], seed)
    for one in results(seed + 1, range(before)):
        together.merge([one])
    began = data.draw(st.lists(st.integers(0, before), min_size=count, max_size=count))
    alone, batch = forked(together), results(seed + 2, began)
    together.merge(batch, closes=closes)
    for one in batch:
        alone.merge([one], closes=closes if one is batch[-1] else None)
    assert together.objects.keys() == alone.objects.keys()
    assert together.tally == pytest.approx(dict(alone.tally))
    for kept, tensors in together.objects.items():
        for tensor, value in tensors.items():
            np.testing.assert_allclose(value, alone.objects[kept][tensor], rtol=2e-5, atol=2e-5)


@settings(max_examples=25)
@pytest.mark.parametrize("name", [*CASES])
@given(began=st.lists(st.integers(0, 4), min_size=1, max_size=12), seed=st.integers(0, 2**16))
def test_float_buffers_stay_between_those_that_came_in(
    name: str, began: list[int], seed: int
) -> None:
    stage = stage_of(CASES[name], seed)
    came = results(seed + 1, [min(held, place) for place, held in enumerate(began)])
    seen = [stage.first["bn"], *(one.tensors["bn"] for one in came)]
    for one in came:
        last = one is came[-1]
        stage.merge([one], last=last, closes="round" if last else None)
    for kept in stage.objects.keys() & {"server", "ema"}:
        assert (stage.objects[kept]["bn"] >= np.min(seen, axis=0) - 1e-6).all()
        assert (stage.objects[kept]["bn"] <= np.max(seen, axis=0) + 1e-6).all()


@settings(max_examples=25)
@pytest.mark.parametrize("name", CONVEX)
@given(staleness=st.lists(st.integers(0, 40), min_size=1, max_size=12), seed=st.integers(0, 2**16))
def test_convex_rules_have_weights_that_sum_to_one(
    name: str, staleness: list[int], seed: int
) -> None:
    stage = stage_of(CASES[name], seed)
    stage.merge(results(seed + 1, [0] * len(staleness)))
    weights = stage.recipes[0].weights("server")
    assert all(0 <= weight <= 1 for weight in weights.values())
    assert sum(weights.values()) == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("name", PER_RULE)
def test_what_agrees_with_everybody_stays(name: str) -> None:
    """Results that changed nothing change nothing: every rule's fixed point."""
    stage = stage_of(CASES[name], 0)
    for place in range(12):
        closes: Closing | None = "round" if place % 4 == 3 else None
        stage.merge([Result(1, max(0, place - 3), 10, stage.first)], closes=closes)
    for tensor, value in stage.objects["server"].items():
        np.testing.assert_allclose(value, stage.first[tensor], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 16])
def test_damped_delta_stays_within_reach_at_every_staleness(k: int) -> None:
    """Steady pulls to one point from k-stale versions end there; the undamped rule explodes."""
    goal = (0.1 * np.random.default_rng(7).standard_normal(30)).astype(np.float32)

    def distance(merge: dict[str, Any]) -> float:
        stage = stage_of(merge, 0, k)
        with np.errstate(over="ignore", invalid="ignore"):
            for place in range(20 * k):
                began = max(0, place - k + 1)
                start = stage.versions[began][1]["w"]
                came = {"w": (start + 0.7 * (goal - start)).astype(np.float32)}
                stage.merge([Result(1, began, 1, came | {"bn": stage.first["bn"]})])
        return float(np.abs(stage.objects["server"]["w"] - goal).max())

    assert distance({"rule": "damped-delta"}) < 0.02
    if k == 16:
        assert not distance({"rule": "delta", "eta": 1.0, "force": True}) < 1
