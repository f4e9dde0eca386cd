"""When the buffer is kept, emptied and taken along, and what float buffers become."""

import pytest

from spotgrad.merging.fedbuff import recipe
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.merge import FedBuff
from spotgrad.protocol.recipe import Recipe

RULE = FedBuff(rule="fedbuff", size=3)


def merged(rule: FedBuff, count: int, window: int = 0, *, last: bool = False) -> Recipe:
    objects = frozenset({"server", "buffer"} if window else {"server"})
    tally = {"window": float(window), "mass": float(window)}
    batch = [Contribution(1, 0, 10 + place) for place in range(count)]
    return recipe(rule, Occasion(4, objects, tally, last), batch)


def test_until_it_is_full_the_buffer_alone_is_written() -> None:
    found = merged(RULE, 1, window=1)
    assert set(found.outputs) == {"buffer"}
    assert found.weights("buffer") == {"buffer": 1.0, "client-0": 1.0, "base-0": -1.0}
    assert found.outputs["buffer"].buffers == {"buffer": 1.0, "client-0": 1.0}
    assert found.tally == {"window": 2.0, "mass": 2.0}


def test_a_full_buffer_makes_one_step_and_is_dropped() -> None:
    found = merged(RULE, 1, window=2)
    third = 1.0 / 3
    weights = {"server": 1.0, "buffer": third, "client-0": third, "base-0": -third}
    assert found.weights("server") == weights
    assert found.outputs["server"].buffers == {"buffer": third, "client-0": third}
    assert (set(found.outputs), found.drops) == ({"server"}, ("buffer",))


def test_the_last_result_takes_along_what_is_there() -> None:
    found = merged(RULE, 1, window=1, last=True)
    assert found.weights("server")["buffer"] == 0.5
    assert found.tally == {"window": 0.0, "mass": 0.0}


def test_an_update_counts_less_the_more_versions_it_is_behind() -> None:
    batch = [Contribution(1, 9, 1, behind=behind) for behind in (0, 3)]
    found = recipe(FedBuff(rule="fedbuff", size=2), Occasion(), batch)
    weights = found.weights("server")
    assert (weights["client-0"], weights["client-1"]) == (0.5, 0.25)
    within = recipe(FedBuff(rule="fedbuff", size=1), Occasion(), batch)
    # The first of the batch has made a version already, so the second is four behind.
    assert within.weights("server")["client-1"] == pytest.approx(5**-0.5)


def test_results_may_be_weighed_by_their_samples() -> None:
    by_samples = FedBuff(rule="fedbuff", size=2, weigh="samples")
    weights = merged(by_samples, 2).weights("server")
    assert weights["client-0"] == pytest.approx(10 / 21)
    assert weights["client-1"] == pytest.approx(11 / 21)


@pytest.mark.parametrize(
    ("buffers", "weights"), [("keep", {"server": 1.0}), ("latest", {"client-1": 1.0})]
)
def test_float_buffers_may_be_kept_or_replaced(buffers: str, weights: dict[str, float]) -> None:
    rule = FedBuff.model_validate({"rule": "fedbuff", "size": 2, "buffers": buffers})
    assert merged(rule, 2).outputs["server"].buffers == weights
