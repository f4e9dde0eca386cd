"""The outer step: Nesterov by the mean update; what it is without momentum, and at the end."""

import numpy as np
import pytest

from spotgrad.merging.diloco import recipe
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.merge import DiLoCo
from spotgrad.protocol.recipe import Closing, Recipe
from tests.unit.merging.stage import Result, Stage, script, spec_of, start

RULE = DiLoCo(rule="diloco", momentum=0.5, eta=1.0)


def merged(*objects: str, closes: Closing | None = "round", **tally: float) -> Recipe:
    occasion = Occasion(4, frozenset({"server", *objects}), tally, closes=closes)
    return recipe(RULE, occasion, [Contribution(1, 0, 10)])


def test_an_open_round_leaves_server_and_momentum_alone() -> None:
    found = merged("momentum", closes=None)
    assert set(found.outputs) == {"round"}
    assert found.weights("round") == {"client-0": 1.0, "base-0": -1.0}
    assert found.outputs["round"].buffers == {"client-0": 1.0}


def test_closing_it_turns_the_momentum_and_steps() -> None:
    found = merged("momentum")
    assert found.weights("momentum") == {"momentum": 0.5, "client-0": 1.0, "base-0": -1.0}
    # D + mu (mu v + D)
    wanted = {"server": 1.0, "momentum": 0.25, "client-0": 1.5, "base-0": -1.5}
    assert found.weights("server") == wanted
    assert found.outputs["momentum"].buffers is None


def test_what_comes_after_the_last_round_leaves_the_momentum_alone() -> None:
    found = merged("momentum", closes="rest", round_mass=3.0)
    assert set(found.outputs) == {"server"}
    assert found.weights("server") == {"server": 1.0, "client-0": 0.25, "base-0": -0.25}


@pytest.mark.parametrize(("weigh", "mass"), [("results", [1, 1, 1]), ("samples", [10, 11, 12])])
def test_with_eta_1_and_no_momentum_it_is_the_mean(weigh: str, mass: list[int]) -> None:
    merge = {"rule": "diloco", "eta": 1.0, "momentum": 0.0, "weigh": weigh}
    stage = Stage(spec_of(4, **merge), start())
    results = [Result(1, 0, one.samples, one.tensors) for one in script(3)]
    stage.merge(results[:2])
    stage.merge(results[2:], closes="round")
    assert set(stage.objects) == {"server"}
    for name, value in stage.objects["server"].items():
        copies = [one.tensors[name] for one in results]
        wanted = np.average(copies, axis=0, weights=mass)
        np.testing.assert_allclose(value, wanted, rtol=1e-6, atol=1e-7)
