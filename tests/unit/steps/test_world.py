import dataclasses

import pytest

from spotgrad.steps.world import World
from tests.fakes.clock import FakeClock
from tests.fakes.ids import FakeIds
from tests.fakes.queue import FakeQueue
from tests.fakes.store import FakeStore


def test_a_world_is_what_it_was_given_and_stays_so() -> None:
    store, queue, clock, ids = FakeStore(), FakeQueue(), FakeClock(), FakeIds()
    world = World(store, queue, clock, ids)
    assert (world.store, world.subtasks, world.clock) == (store, queue, clock)
    assert world.new_id() == "0000000000000001"
    with pytest.raises(dataclasses.FrozenInstanceError):
        world.store = FakeStore()  # type: ignore[misc]  # the point of the test
