"""Which objects are written when: momentum where a window closes, the buffer while one is open."""

import pytest

from spotgrad.merging.delayed_nesterov import recipe
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.merge import DelayedNesterov
from spotgrad.protocol.recipe import Recipe

RULE = DelayedNesterov(rule="delayed-nesterov", every=3, momentum=0.5, eta=1.0)


def merged(count: int, *objects: str, window: int = 0) -> Recipe:
    occasion = Occasion(4, frozenset({"server", *objects}), {"window": float(window)})
    return recipe(RULE, occasion, [Contribution(1, 0, 1)] * count)


def test_an_open_window_is_kept_in_the_buffer() -> None:
    found = merged(2)
    assert set(found.outputs) == {"server", "buffer"}
    assert found.weights("buffer") == {"client-0": 1, "client-1": 1, "base-0": -1, "base-1": -1}
    assert (found.tally, found.drops) == ({"window": 2.0}, ())
    assert found.outputs["buffer"].buffers is None  # it holds float parameters alone


def test_closing_it_turns_the_momentum_and_drops_the_buffer() -> None:
    found = merged(1, "buffer", "momentum", window=2)
    assert set(found.outputs) == {"server", "momentum"}
    third = 1.0 * (1.0 / 3)
    wanted = {"buffer": third, "momentum": 0.5, "client-0": third, "base-0": -third}
    assert found.weights("momentum") == wanted
    assert (found.tally, found.drops) == ({"window": 0.0}, ("buffer",))


def test_a_batch_may_close_one_window_and_open_the_next() -> None:
    found = merged(2, "buffer", window=2)
    assert set(found.outputs) == {"server", "momentum", "buffer"}
    assert found.weights("buffer") == {"client-1": 1.0, "base-1": -1.0}
    assert found.drops == ()


def test_a_window_within_one_batch_needs_no_buffer() -> None:
    assert merged(3).drops == ()
    assert set(merged(3).outputs) == {"server", "momentum"}


@pytest.mark.parametrize(("in_flight", "size"), [(2, 8), (8, 8), (9, 9)])
def test_n_is_the_subtasks_in_flight_but_not_below_8(in_flight: int, size: int) -> None:
    left_out = RULE.model_copy(update={"every": None})

    def window(count: int) -> float:
        batch = [Contribution(1, 0, 1)] * count
        return recipe(left_out, Occasion(in_flight), batch).tally["window"]

    assert (window(size - 1), window(size)) == (size - 1, 0)
