"""The centre, as shares of the ways to each result."""

from math import inf

import numpy as np
import pytest

from spotgrad.merging.centered_clipping import centers, step

NUMBERS = {"windows": (3.0,), "waiting": (0.0,), "eta": (1.0,), "rounds": (1.0,), "radius": ()}


def gram(*places: float) -> tuple[float, ...]:
    return tuple(float(one * other) for one in places for other in places)


def test_what_is_within_the_radius_counts_whole() -> None:
    numbers = NUMBERS | {"radius": (2.0,), "products": gram(1, -2, 8)}
    assert centers(numbers, 3) == [pytest.approx([1 / 3, 1 / 3, 1 / 12])]


def test_without_a_radius_it_is_the_median_length() -> None:
    numbers = NUMBERS | {"products": gram(1, -2, 8)}
    assert centers(numbers, 3) == [pytest.approx([1 / 3, 1 / 3, 1 / 12])]


def test_the_centre_moves_again_from_where_it_is() -> None:
    """From 0 to (1 + 1 - 1)/3, from there by the lengths 2/3, 5/3 and 10/3 that are left."""
    numbers = NUMBERS | {"rounds": (2.0,), "radius": (1.0,), "products": gram(1, 2, -3)}
    center, start = (
        sum(a * b for a, b in zip(centers(numbers, 3)[0], (1, 2, -3), strict=True)),
        1 / 3,
    )
    assert center == pytest.approx(start + (2 / 3 + 1 - 1) / 3)


def test_the_next_window_begins_from_the_last_one_s_centre() -> None:
    numbers = NUMBERS | {"windows": (3.0, 3.0), "products": gram(1, 1, 1, 1, 1, 1)}
    first, second = centers(numbers, 6)
    assert sum(first) == pytest.approx(1)
    assert sum(second) == pytest.approx(1)  # the same place, by other results


@pytest.mark.parametrize("far", [inf, float("nan")])
def test_what_is_infinitely_far_gets_no_share(far: float) -> None:
    rows = list(gram(1, 2, 3))
    for place in (2, 5, 6, 7, 8):
        rows[place] = far
    numbers = NUMBERS | {"rounds": (4.0,), "products": tuple(rows)}
    (shares,) = centers(numbers, 3)
    assert shares[2] == 0
    assert np.isfinite(shares).all()


def test_the_centre_is_kept_for_the_next_window() -> None:
    blocks = {"server": np.array([5], np.float32), "center": np.array([1], np.float32)}
    for number, came in enumerate((1, 2, 3)):
        blocks |= {
            f"client-{number}": np.array([came], np.float32),
            f"base-{number}": np.array([0], np.float32),
        }
    made = step(NUMBERS | {"products": gram(0, 1, 2)}, blocks)
    assert made["center"] == pytest.approx([1 + 2 / 3])
    assert made["server"] == pytest.approx([6 + 2 / 3])


def test_a_result_without_a_share_does_not_touch_the_model() -> None:
    """What is infinitely far may hold anything, in the buffers too."""
    blocks = {"server": np.array([5], np.float32), "center": np.array([0], np.float32)}
    for number, came in enumerate((1, inf, 2)):
        blocks |= {
            f"client-{number}": np.array([came], np.float32),
            f"base-{number}": np.array([0], np.float32),
        }
    rows = list(gram(1, 0, 2))
    rows[1] = rows[3] = rows[4] = rows[5] = rows[7] = inf
    made = step(NUMBERS | {"radius": (2.0,), "products": tuple(rows)}, blocks)
    assert made["server"] == pytest.approx([6])
