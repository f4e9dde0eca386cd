"""The numbers that the block function is told, and what it does with them."""

import numpy as np
import pytest

from spotgrad.merging.dc_asgd import correct, recipe
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.merge import DcAsgd

BATCH = [Contribution(1, 2, 10)]


@pytest.mark.parametrize(
    ("options", "strength"),
    [({}, 0.04), ({"adaptive": True}, 2.0), ({"correction": 0.5}, 0.5), ({"correction": 0}, 0.0)],
)
def test_the_correction_is_the_papers_unless_it_is_said(
    options: dict[str, object], strength: float
) -> None:
    found = recipe(DcAsgd.model_validate({"rule": "dc-asgd", **options}), Occasion(), BATCH)
    assert found.numbers["lambda"] == (strength,)
    assert found.numbers["eta"] == (1.0,)
    assert found.function == "dc-asgd"
    assert set(found.outputs) == ({"server", "square"} if "adaptive" in options else {"server"})


def block(value: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.full(3, value, np.float32)


def test_without_staleness_there_is_nothing_to_correct() -> None:
    numbers = {"results": (1.0,), "eta": (0.5,), "lambda": (9.0,), "decay": ()}
    blocks = {"server": block(1), "base-0": block(1), "client-0": block(3)}
    assert correct(numbers, blocks)["server"].tolist() == [2.0, 2.0, 2.0]


def test_the_correction_grows_with_the_way_the_server_has_gone() -> None:
    numbers = {"results": (1.0,), "eta": (0.5,), "lambda": (0.25,), "decay": ()}
    blocks = {"server": block(5), "base-0": block(1), "client-0": block(3)}
    # g = -2: 5 - 0.5 (-2 + 0.25 * 4 * 4)
    assert correct(numbers, blocks)["server"].tolist() == [4.0, 4.0, 4.0]
