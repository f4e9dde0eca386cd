"""Symbols add up as numbers do, and come out in the kernel's order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotgrad.merging.combination import ZERO, Combination, base_of, client_of, object_of

NAMES = ["server", "momentum", "buffer", "client-0", "client-2", "client-10", "base-0", "base-3"]
COMBINATIONS = st.dictionaries(st.sampled_from(NAMES), st.floats(-4, 4)).map(Combination)
VALUES = {name: float(3 + place) for place, name in enumerate(NAMES)}


def value(of: Combination) -> float:
    return sum(weight * VALUES[name] for name, weight in of.terms.items())


@given(one=COMBINATIONS, other=COMBINATIONS, factor=st.floats(-2, 2))
def test_they_add_subtract_and_scale(one: Combination, other: Combination, factor: float) -> None:
    assert value(one + other) == pytest.approx(value(one) + value(other))
    assert value(one - other) == pytest.approx(value(one) - value(other))
    assert value(one * factor) == pytest.approx(value(one) * factor)


def test_weights_come_in_one_order_whatever_was_added_first() -> None:
    last_first = base_of(3) + client_of(10) + base_of(0) + client_of(2) + object_of("server")
    added = last_first + object_of("momentum") + object_of("buffer")
    order = ["server", "buffer", "momentum", "client-2", "client-10", "base-0", "base-3"]
    assert list(added.weights) == order


def test_what_cancels_is_no_input() -> None:
    assert (client_of(1) - client_of(1)).weights == ZERO.weights == {}
