"""Windows of results: what waits, when a window closes, and that no few of them sway a step."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotgrad.errors import Malformed
from spotgrad.merging.functions import function_of
from spotgrad.merging.kernel import follow
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.merging.rule import decide
from spotgrad.protocol.recipe import Blend, Recipe
from tests.unit.merging.stage import Result, Stage, spec_of

ROBUST: dict[str, dict[str, Any]] = {
    "median": {"rule": "median", "size": 7},
    "trimmed-mean": {"rule": "trimmed-mean", "size": 7, "trim": 2},
    "krum": {"rule": "krum", "size": 7, "bad": 2},
    "krum-best": {"rule": "krum", "size": 7, "bad": 2, "best": 3},
    "centered-clipping": {"rule": "centered-clipping", "size": 7, "rounds": 3},
}


def recipe(count: int, waits: int = 0, *, last: bool = False, **merge: Any) -> Recipe:
    whole: dict[str, Any] = {"rule": "median", "size": 5} | merge
    names = {"server", *(f"waiting_{place:04d}" for place in range(waits))}
    occasion = Occasion(4, frozenset(names), {"window": float(waits)}, last)
    return decide(spec_of(**whole), occasion, batch(count))


def batch(count: int) -> list[Contribution]:
    return [Contribution(1, 0, 10)] * count


def test_a_result_waits_as_its_update() -> None:
    found = recipe(2, waits=1)
    assert set(found.outputs) == {"waiting_0001", "waiting_0002"}
    assert found.outputs["waiting_0002"] == Blend(
        parameters={"client-1": 1.0, "base-1": -1.0}, buffers={"client-1": 1.0}
    )
    assert (found.tally, found.function, found.drops) == ({"window": 3.0}, None, ())
    assert not found.needs_object("waiting_0000")
    assert found.needs_object("server")


def test_a_full_window_closes_and_the_rest_waits_anew() -> None:
    found = recipe(6, waits=3)
    assert found.numbers["windows"] == (5.0,)
    assert found.outputs["waiting_0003"].buffers == {"client-5": 1.0}
    assert set(found.outputs) == {"server", *(f"waiting_{place:04d}" for place in range(4))}
    assert (found.drops, found.tally) == ((), {"window": 4.0})
    assert found.needs_object("waiting_0000")
    assert recipe(2, waits=3).drops == ("waiting_0000", "waiting_0001", "waiting_0002")


def test_a_batch_may_fill_several_windows() -> None:
    assert recipe(9, waits=2).numbers["windows"] == (5.0, 5.0)


@pytest.mark.parametrize(("rest", "windows"), [(3, (5.0, 3.0)), (2, (5.0,))])
def test_the_job_s_last_window_may_be_small_but_not_too_small(
    rest: int, windows: tuple[float, ...]
) -> None:
    found = recipe(5 + rest, last=True)
    assert found.numbers["windows"] == windows
    assert found.tally["window"] == (0.0 if rest == 3 else rest)


def test_without_a_size_it_is_k_or_what_the_rule_needs() -> None:
    assert recipe(4, size=None).numbers["windows"] == (4.0,)
    assert recipe(4, rule="krum", size=None).function is None
    assert recipe(5, rule="krum", size=None).numbers["windows"] == (5.0,)


@pytest.mark.parametrize(
    ("buffers", "weights"),
    [("blend", {}), ("latest", {"client-1": 1.0}), ("keep", {"server": 1.0})],
)
def test_float_buffers_are_the_rule_s_the_latest_or_kept(
    buffers: str, weights: dict[str, float]
) -> None:
    found = recipe(3, waits=3, buffers=buffers)
    assert found.outputs["server"].buffers == weights
    assert found.makes_buffers == (buffers == "blend")


def test_a_function_that_makes_no_buffers_says_so() -> None:
    asked = Recipe(
        outputs={"server": Blend(parameters={"server": 1.0}, buffers={})},
        function="dc-asgd",
        makes_buffers=True,
    )
    with pytest.raises(Malformed, match="its function makes no buffers"):
        follow(asked, {"server": {"m": np.ones(2, np.float32)}}, {"m": "buffer"})
    assert function_of("median").buffers is not None


def window(merge: dict[str, Any], bad: list[Any], seed: int = 0) -> tuple[Stage, Any]:
    """One window of 7, of which some are bad; return the stage and the good updates."""
    draw = np.random.default_rng(seed)
    first = {"w": draw.standard_normal(30).astype(np.float32), "bn": np.ones(4, np.float32)}
    stage = Stage(spec_of(8, **merge), first)
    good = (0.3 + 0.1 * draw.standard_normal((7 - len(bad), 30))).astype(np.float32)
    rows = [first["w"] + each for each in good]
    spread = [1 + 0.1 * draw.random(4) for _ in rows]
    for place, said in zip(draw.permutation(len(rows) + 1), bad, strict=False):
        rows.insert(place, np.full(30, said))
        spread.insert(place, np.full(4, abs(said)))
    for place, (w, bn) in enumerate(zip(rows, spread, strict=True)):
        tensors = {"w": np.asarray(w, np.float32), "bn": np.asarray(bn, np.float32)}
        stage.merge([Result(1, 0, 10, tensors)], last=place == 6)
    return stage, good


@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("name", ROBUST)
@given(
    bad=st.lists(st.sampled_from([1e30, -1e30, 3e38, -3e38, 50.0, -7.0]), max_size=2),
    seed=st.integers(0, 2**16),
)
def test_two_bad_results_of_seven_cannot_sway_it(name: str, bad: list[float], seed: int) -> None:
    """The step stays near the good updates' mean, wherever the bad ones point."""
    stage, good = window(ROBUST[name], bad, seed)
    moved = stage.objects["server"]["w"] - stage.first["w"]
    assert set(stage.objects) - {"center"} == {"server"}
    away = float(np.linalg.norm(moved - good.mean(axis=0)))
    radius = float(np.linalg.norm(good.mean(axis=0)))
    assert np.isfinite(moved).all()
    assert away < 0.8 * radius
    if name != "centered-clipping":
        assert (moved >= good.min(axis=0) - 1e-6).all()
        assert (moved <= good.max(axis=0) + 1e-6).all()
        assert (stage.objects["server"]["bn"] <= 1.1 + 1e-6).all()


def test_a_mean_is_swayed_where_a_window_is_not() -> None:
    """The same bad results under a rule that averages: the proof that the test above can fail."""
    stage, good = window({"rule": "fedbuff", "size": 7}, [50.0])
    moved = stage.objects["server"]["w"] - stage.first["w"]
    assert np.linalg.norm(moved - good.mean(axis=0)) > 10


@pytest.mark.parametrize("name", ROBUST)
def test_bits_depend_neither_on_blocks_nor_on_batches(name: str) -> None:
    """What waited gives the same bits as what comes at once, at any block size."""
    draw = np.random.default_rng(5)
    inputs: dict[str, Any] = {"server": _copy(draw)}
    for number in range(7):
        inputs |= {f"client-{number}": _copy(draw), f"base-{number}": inputs["server"]}
    merge = ROBUST[name]
    whole = decide(spec_of(**merge), Occasion(), batch(7))
    roles: Any = {"bn": "buffer"}
    made = [
        follow(whole, inputs, roles, block_bytes=size)["server"] for size in (264, 4096, 262144)
    ]
    kept = follow(decide(spec_of(**merge), Occasion(), batch(3)), inputs, roles)
    later = {"server": inputs["server"]} | kept
    for number in range(4):
        later |= {f"client-{number}": inputs[f"client-{number + 3}"], f"base-{number}": {}}
        later[f"base-{number}"] = inputs["server"]
    occasion = Occasion(objects=frozenset(later), tally={"window": 3.0})
    made.append(follow(decide(spec_of(**merge), occasion, batch(4)), later, roles)["server"])
    for each in ("w", "bn"):
        assert len({one[each].tobytes() for one in made}) == 1


def _copy(draw: np.random.Generator) -> dict[str, Any]:
    return {
        "w": draw.standard_normal(70_000).astype(np.float32),
        "bn": draw.random(9).astype(np.float32),
    }
