"""Which results are nearest to the others."""

from itertools import combinations
from math import inf

import numpy as np
import pytest

from spotgrad.merging.krum import best, distances
from spotgrad.protocol.recipe import waiting


def pairs(places: list[float]) -> list[float]:
    return [(one - other) ** 2 for one, other in combinations(places, 2)]


def test_the_one_with_the_nearest_neighbours_is_chosen() -> None:
    assert best(pairs([0, 9, 1, 1.2, 0.9]), 5, bad=1, most=1) == [2]
    assert best(pairs([0, 9, 1, 1.2, 0.9]), 5, bad=1, most=3) == [2, 3, 4]


def test_the_first_of_equals_is_chosen() -> None:
    assert best(pairs([1, 1, 1, 1, 1]), 5, bad=1, most=2) == [0, 1]


def test_bad_ones_that_are_infinitely_far_are_no_neighbours_of_each_other() -> None:
    rows = [np.array([value], np.float32) for value in (inf, 1, 1.5, 1.25, inf, 1, 1.1)]
    blocks = {waiting(place): row for place, row in enumerate(rows)}
    found = distances({"windows": (7.0,), "waiting": (7.0,)}, blocks)["pairs-0"]
    assert found[3] == inf
    assert best(found, 7, bad=2, most=5) == [1, 2, 3, 5, 6]


def test_each_window_has_pairs_of_its_own() -> None:
    blocks = {waiting(place): np.array([place], np.float32) for place in range(6)}
    found = distances({"windows": (3.0, 3.0), "waiting": (6.0,)}, blocks)
    assert found == {"pairs-0": (1.0, 4.0, 1.0), "pairs-1": (1.0, 4.0, 1.0)}


@pytest.mark.parametrize("most", [1, 2])
def test_scores_leave_out_the_farthest(most: int) -> None:
    """With five results and one bad, two neighbours count."""
    assert best(pairs([0, 0.1, 0.2, 5, 5.1]), 5, bad=1, most=most) == [0, 1][-most:]
