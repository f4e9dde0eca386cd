"""How far two results are apart, in lengths of their update."""

from math import inf
from typing import Any

import numpy as np
import pytest

from spotgrad.merging.agreement import apart

ROLES: Any = {"w": "parameter", "mean": "buffer"}


def copy(*values: float) -> dict[str, Any]:
    return {"w": np.array(values, np.float32), "mean": np.array([values[0] * 99], np.float32)}


@pytest.mark.parametrize(
    ("one", "other", "norms", "away"),
    [
        ((3, 4), (3, 4), (5, 5), 0.0),
        ((3, 4), (-3, -4), (5, 5), 2.0),
        ((3, 4), (0, 0), (5, 0), 1.0),
        ((3, 4), (3, 0), (5, 10), 0.4),
        ((0, 0), (0, 0), (0, 0), 0.0),
        ((1, 0), (0, 0), (0, 0), inf),
    ],
)
def test_it_is_a_share_of_the_longer_update(
    one: tuple[float, ...], other: tuple[float, ...], norms: tuple[float, float], away: float
) -> None:
    assert apart(copy(*one), copy(*other), ROLES, update_norms=norms) == away
