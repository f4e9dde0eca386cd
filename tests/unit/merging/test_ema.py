"""The average beside the server copy: bias-corrected, by results, only with a version."""

import pytest

from spotgrad.merging.ema import with_ema
from spotgrad.merging.occasion import Occasion
from spotgrad.protocol.ledger import plain_recipe
from spotgrad.protocol.recipe import Blend, Recipe

VERSION = plain_recipe(0.5, [0.5])
NO_VERSION = Recipe(outputs={"buffer": Blend(parameters={"client-0": 1.0})}, tally={"window": 1.0})


def shares(*results: int, decay: float = 0.5) -> list[float]:
    """The weight of each new version in the average, made of so many results each."""
    tally: dict[str, float] = {}
    found = []
    for count in results:
        recipe = with_ema(VERSION, decay, Occasion(tally=tally), count)
        tally = dict(recipe.tally)
        found.append(recipe.weights("ema")["merged"])
    return found


def test_the_first_version_is_its_own_average() -> None:
    recipe = with_ema(VERSION, 0.98, Occasion(), 3)
    assert recipe.outputs["ema"] == Blend(parameters={"merged": 1.0}, buffers={"merged": 1.0})
    assert recipe.tally == {"ema_results": 3.0}
    assert list(recipe.outputs) == ["server", "ema"]  # the average is made of the new server copy


def test_the_bias_is_corrected() -> None:
    assert shares(1, 1, 1) == pytest.approx([1, 2 / 3, 4 / 7])
    assert shares(*[1] * 60)[-1] == pytest.approx(0.5)


def test_a_version_of_many_results_counts_as_many() -> None:
    assert shares(1, 2) == pytest.approx([1, 0.75 / 0.875])


def test_without_a_version_the_average_waits() -> None:
    waiting = with_ema(NO_VERSION, 0.5, Occasion(tally={"ema_results": 1.0}), 2)
    assert "ema" not in waiting.outputs
    assert waiting.tally == {"window": 1.0, "ema_waiting": 2.0, "ema_results": 1.0}
    moved = with_ema(VERSION, 0.5, Occasion(tally=waiting.tally), 1)
    assert moved.weights("ema")["merged"] == pytest.approx((1 - 0.5**3) / (1 - 0.5**4))
    assert moved.tally == {"ema_results": 4.0}
