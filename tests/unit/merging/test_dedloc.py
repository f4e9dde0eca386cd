"""Gradients add up by their samples; a full batch becomes one step of the optimizer."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotgrad.merging.dedloc import recipe
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.merge import DeDLOC
from spotgrad.protocol.recipe import Closing
from tests.unit.merging.stage import Result, Stage, came, spec_of

FIRST = {"w": np.linspace(-1, 1, 20, dtype=np.float32), "bn": np.ones(3, np.float32)}


def rule(**optimizer: Any) -> dict[str, Any]:
    return {
        "rule": "dedloc",
        "target_batch_size": 100,
        "optimizer": {"name": "sgd", "lr": 0.5} | optimizer,
    }


def mean(results: list[Result], name: str) -> Any:
    samples = [one.samples for one in results]
    return np.average([one.tensors[name] for one in results], axis=0, weights=samples)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**16), count=st.integers(1, 9), data=st.data())
def test_a_step_is_by_the_mean_of_all_samples_however_they_came(
    seed: int, count: int, data: st.DataObject
) -> None:
    results = came(seed, count)
    shuffled = data.draw(st.permutations(results))
    cuts = data.draw(st.sets(st.integers(1, count - 1))) if count > 1 else set[int]()
    stage = Stage(spec_of(4, **rule()), FIRST)
    edges = [0, *sorted(cuts), count]
    for number, (start, end) in enumerate(pairwise(edges), start=2):
        closes: Closing | None = "step" if number == len(edges) else None
        stage.merge(shuffled[start:end], closes=closes)
    server = stage.objects["server"]
    wanted = FIRST["w"] - 0.5 * mean(results, "w")
    np.testing.assert_allclose(server["w"], wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(server["bn"], mean(results, "bn"), rtol=1e-5, atol=1e-6)
    assert "round" not in stage.objects


def test_until_then_the_model_stays_as_it_is() -> None:
    occasion = Occasion()
    found = recipe(DeDLOC.model_validate(rule()), occasion, [Contribution(1, 0, 30)])
    assert set(found.outputs) == {"round"}
    assert found.function is None
    assert found.tally == {"window": 1, "mass": 30, "steps": 0}


def test_a_batch_may_close_without_a_contribution() -> None:
    """What it waited for was given up."""
    occasion = Occasion(
        objects=frozenset({"server", "round"}),
        tally={"window": 3.0, "mass": 120.0, "steps": 6.0},
        closes="step",
    )
    found = recipe(DeDLOC.model_validate(rule(momentum=0.9)), occasion, [])
    assert set(found.outputs) == {"server", "momentum"}
    assert found.drops == ("round",)
    assert found.numbers["gradient/round"] == (1.0,)
    assert found.tally == {"window": 0, "mass": 0, "steps": 7}


@pytest.mark.parametrize(
    ("optimizer", "kept"),
    [
        ({"name": "sgd", "lr": 1.0}, set()),
        ({"name": "sgd", "lr": 1.0, "momentum": 0.9}, {"momentum"}),
        ({"name": "adamw", "lr": 1.0}, {"exp_avg", "exp_avg_sq"}),
        ({"name": "lamb", "lr": 1.0}, {"exp_avg", "exp_avg_sq"}),
    ],
)
def test_the_optimizers_state_is_kept_beside_the_model(
    optimizer: dict[str, Any], kept: set[str]
) -> None:
    stage = Stage(spec_of(4, **rule(**optimizer)), FIRST)
    for _ in range(2):
        stage.merge(came(1, 2), closes="step")
        assert stage.objects.keys() == {"server"} | kept


def test_the_schedule_goes_by_steps() -> None:
    warm = rule(schedule={"shape": "linear", "warmup_steps": 4, "total_steps": 8})
    merge = DeDLOC.model_validate(warm)
    rates = []
    for steps in range(8):
        occasion = Occasion(tally={"steps": float(steps)}, closes="step")
        found = recipe(merge, occasion, [Contribution(1, 0, 100)])
        rates.append(found.numbers["lr"][0])
        assert found.numbers["t"] == (steps + 1.0,)
    assert rates[:4] == pytest.approx([0.125, 0.25, 0.375, 0.5])
    assert rates[4:] == sorted(rates[4:], reverse=True)
