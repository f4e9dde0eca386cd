"""A round is the mean of its copies by samples, whatever the order and however it was cut up."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotgrad.merging.fedavg import recipe
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.merge import FedAvg
from spotgrad.protocol.recipe import Closing, Recipe
from tests.unit.merging.stage import Result, Stage, came, spec_of

RULE = FedAvg(rule="fedavg")


def a_round(results: list[Result], cuts: tuple[int, ...] = (), **merge: Any) -> Stage:
    """Merge one round, in batches that end at ``cuts``."""
    first = {"w": np.ones(20, np.float32), "bn": np.ones(3, np.float32)}
    stage = Stage(spec_of(4, **({"rule": "fedavg"} | merge)), first)
    edges = [0, *cuts, len(results)]
    for number, (start, end) in enumerate(pairwise(edges), start=2):
        closes: Closing | None = "round" if number == len(edges) else None
        stage.merge(results[start:end], closes=closes)
    return stage


@settings(max_examples=40)
@given(seed=st.integers(0, 2**16), count=st.integers(1, 12), data=st.data())
def test_the_order_and_the_batches_do_not_matter(
    seed: int, count: int, data: st.DataObject
) -> None:
    results = came(seed, count)
    shuffled = data.draw(st.permutations(results))
    cuts = data.draw(st.sets(st.integers(1, count - 1))) if count > 1 else set[int]()
    server = a_round(shuffled, tuple(sorted(cuts))).objects["server"]
    samples = [one.samples for one in results]
    for name in ("w", "bn"):
        wanted = np.average([one.tensors[name] for one in results], axis=0, weights=samples)
        np.testing.assert_allclose(server[name], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("samples", [1, 49, 333])
def test_of_one_it_is_that_client(samples: int) -> None:
    (one,) = came(3, 1)
    alone = Result(1, 0, samples, one.tensors)
    for stage in (a_round([alone]), a_round([alone], (1,))):  # the second closes without a result
        for name, value in alone.tensors.items():
            assert stage.objects["server"][name].tobytes() == value.tobytes()


def test_an_open_round_makes_no_version() -> None:
    stage = a_round(came(0, 4), (1, 2))
    assert [set(one.outputs) for one in stage.recipes] == [{"round"}, {"round"}, {"server"}]
    assert (stage.version, set(stage.objects)) == (1, {"server"})
    assert stage.recipes[-1].drops == ("round",)
    assert stage.tally["window"] == 0.0


def merged(*batch: Contribution, closes: Closing = "round", **tally: float) -> Recipe:
    names = frozenset({"server", "round"} if tally.get("window") else {"server"})
    return recipe(RULE, Occasion(4, names, tally, closes=closes), batch)


def test_a_late_result_enters_by_its_update() -> None:
    found = merged(Contribution(2, 0, 30), Contribution(1, 5, 10, behind=1))
    weights = {"server": 0.25, "client-0": 0.75, "client-1": 0.25, "base-1": -0.25}
    assert found.weights("server") == weights
    assert found.outputs["server"].buffers == {"client-0": 0.75, "client-1": 0.25}


def test_what_comes_after_the_last_round_counts_as_if_it_had_been_in_it() -> None:
    found = merged(Contribution(4, 0, 10), closes="rest", round_mass=30.0)
    assert found.weights("server") == {"server": 0.75, "client-0": 0.25}
    assert found.outputs["server"].buffers == {"server": 0.75, "client-0": 0.25}
    assert found.tally["round_mass"] == 40.0


@pytest.mark.parametrize("cuts", [(), (2,), (1, 2, 3, 4)])
def test_float_buffers_may_be_kept_or_replaced(cuts: tuple[int, ...]) -> None:
    results = came(1, 4)
    keep, latest = (a_round(results, cuts, buffers=how) for how in ("keep", "latest"))
    assert keep.objects["server"]["bn"].tolist() == [1.0, 1.0, 1.0]
    assert latest.objects["server"]["bn"].tobytes() == results[-1].tensors["bn"].tobytes()
