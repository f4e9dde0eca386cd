"""The median of a window, coordinate by coordinate."""

import numpy as np
import pytest

from spotgrad.merging.median import in_order, step
from spotgrad.protocol.recipe import waiting


@pytest.mark.parametrize(("rows", "middle"), [([3, 1, 9], 3), ([3, 1, 9, 5], 4)])
def test_it_is_the_middle_or_the_mean_of_two(rows: list[int], middle: float) -> None:
    blocks = {waiting(place): np.array([one], np.float32) for place, one in enumerate(rows)}
    numbers = {"windows": (float(len(rows)),), "waiting": (float(len(rows)),), "eta": (0.5,)}
    assert step(numbers, blocks | {"server": np.array([1], np.float32)})["server"] == 1 + middle / 2


def test_the_mean_of_two_does_not_overflow() -> None:
    most = np.array([3e38], np.float32)
    blocks = {"server": np.array([0], np.float32)} | {waiting(place): most for place in range(4)}
    numbers = {"windows": (4.0,), "waiting": (4.0,), "eta": (1.0,)}
    assert step(numbers, blocks)["server"] == most


def test_zeros_lose_their_sign() -> None:
    ranked = in_order(
        [np.array([0.0], np.float32), np.array([-0.0], np.float32), np.array([0.0], np.float32)]
    )
    assert not np.signbit(ranked).any()
