"""Block functions by name, and the sums that they are told of more than a block."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from spotgrad.errors import Malformed
from spotgrad.merging import dc_asgd, functions
from spotgrad.merging.functions import Function, Numbers, added, function_of
from spotgrad.merging.kernel import follow
from spotgrad.protocol.recipe import Blend, Recipe

Blocks = Mapping[str, NDArray[Any]]


def test_a_recipe_s_function_is_found_by_name() -> None:
    assert function_of("dc-asgd").apply is dc_asgd.correct


def test_an_unknown_function_is_named() -> None:
    with pytest.raises(Malformed, match=r"function 'voodoo' is unknown: expected one of \["):
        function_of("voodoo")


def test_sums_are_added_by_name() -> None:
    first = added({}, {"squares": (1.0, 2.0)})
    assert added(first, {"squares": (3.0, 4.0)}) == {"squares": (4.0, 6.0)}


def squares(name: str) -> Any:
    def measure(numbers: Numbers, blocks: Blocks) -> Numbers:
        scale = numbers.get("scale", (1.0,))[0]
        return {name: (scale * float(np.square(blocks["client-0"], dtype=np.float64).sum()),)}

    return measure


def write(numbers: Numbers, blocks: Blocks) -> Blocks:
    told = np.array([numbers["model"][0], numbers["tensor"][0]], np.float32)
    return {"server": np.resize(told, blocks["server"].shape)}


@pytest.mark.parametrize("block_bytes", [16, 24, 262_144])
def test_a_function_measures_the_model_and_each_tensor(
    monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    """Frozen tensors and buffers are no part of it; the length of a block is none either."""
    measuring = Function(write, of_model=squares("model"), of_tensor=squares("tensor"))
    monkeypatch.setattr(functions, "FUNCTIONS", {"measuring": measuring})
    server = {name: np.zeros(2, np.float32) for name in ("one", "two", "frozen", "mean")}
    values = {"one": [1, 2], "two": [3, 4], "frozen": [100, 100], "mean": [7, 8]}
    client = {name: np.array(value, np.float32) for name, value in values.items()}
    recipe = Recipe(
        outputs={"server": Blend(buffers={"client-0": 1.0})},
        function="measuring",
        numbers={"scale": (2.0,)},
    )
    inputs = {"server": server, "client-0": client}
    roles: Any = {"frozen": "frozen", "mean": "buffer"}
    made = follow(recipe, inputs, roles, block_bytes=block_bytes)["server"]
    assert made["one"].tolist() == [60.0, 10.0]
    assert made["two"].tolist() == [60.0, 50.0]
    assert (made["frozen"].tolist(), made["mean"].tolist()) == ([0.0, 0.0], [7.0, 8.0])


def test_a_sum_over_a_model_has_the_same_bits_at_any_block_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measuring = Function(write, of_model=squares("model"), of_tensor=squares("tensor"))
    monkeypatch.setattr(functions, "FUNCTIONS", {"measuring": measuring})
    values = np.random.default_rng(3).standard_normal(100_000).astype(np.float32)
    inputs = {"server": {"w": np.zeros_like(values)}, "client-0": {"w": values}}
    recipe = Recipe(outputs={"server": Blend(buffers={"server": 1.0})}, function="measuring")
    made = {
        follow(recipe, inputs, {}, block_bytes=size)["server"]["w"][:2].tobytes()
        for size in (800, 4096, 262_144)
    }
    assert len(made) == 1
