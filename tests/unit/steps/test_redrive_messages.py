from collections.abc import Sequence

import pytest

from spotgrad.errors import StoreUnavailable
from spotgrad.ports import Message
from spotgrad.steps.redrive_messages import Moved, redrive_messages
from tests.fakes.clock import FakeClock
from tests.fakes.faults import Fault
from tests.fakes.queue import FakeQueue

LEASE_SECONDS = 30


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def graves(clock: FakeClock) -> FakeQueue:
    return FakeQueue(clock, lease_seconds=LEASE_SECONDS)


@pytest.fixture
def queue(clock: FakeClock) -> FakeQueue:
    return FakeQueue(clock)


@pytest.mark.parametrize("count", [0, 1, 10, 25])
def test_everything_is_sent_back_as_it_was(graves: FakeQueue, queue: FakeQueue, count: int) -> None:
    bodies = [f"body {number}" for number in range(count)]
    graves.send(bodies)
    assert redrive_messages(graves, queue) == Moved(count, 0)
    assert sorted(queue.bodies()) == sorted(bodies)
    assert graves.bodies() == []


def test_what_somebody_else_holds_is_left_and_counted(graves: FakeQueue, queue: FakeQueue) -> None:
    graves.send(["held", "free"])
    graves.receive(most=1, wait_seconds=0)
    assert redrive_messages(graves, queue) == Moved(1, 1)
    assert (queue.bodies(), graves.bodies()) == (["free"], ["held"])


def test_a_message_that_comes_back_at_once_is_not_moved_for_ever(clock: FakeClock) -> None:
    """Its reader fails so fast that it is dead again before the next receive."""
    graves = FakeQueue(clock)

    class Poisoned(FakeQueue):
        def send(self, bodies: Sequence[str]) -> None:
            graves.send(bodies)

    graves.send([str(number) for number in range(30)])
    assert redrive_messages(graves, Poisoned(clock)) == Moved(30, 30)


def test_dying_after_the_send_duplicates_and_loses_nothing(
    clock: FakeClock, graves: FakeQueue, queue: FakeQueue
) -> None:
    graves.send(["a", "b", "c"])
    graves.faults.order(Fault.UNAVAILABLE, operation="delete")
    with pytest.raises(StoreUnavailable):
        redrive_messages(graves, queue)
    assert sorted(queue.bodies()) == ["a", "b", "c"]
    assert len(graves.bodies()) == 3
    clock.advance(LEASE_SECONDS + 1)
    assert redrive_messages(graves, queue) == Moved(3, 0)
    assert set(queue.bodies()) == {"a", "b", "c"}


def test_what_could_not_be_sent_stays_where_it_lies(
    clock: FakeClock, graves: FakeQueue, queue: FakeQueue
) -> None:
    graves.send(["a", "b"])
    queue.faults.order(Fault.UNAVAILABLE, operation="send")
    with pytest.raises(StoreUnavailable):
        redrive_messages(graves, queue)
    assert (queue.bodies(), graves.bodies()) == ([], ["a", "b"])
    clock.advance(LEASE_SECONDS + 1)
    assert redrive_messages(graves, queue) == Moved(2, 0)


def test_a_lease_that_somebody_else_has_by_now_is_no_failure(
    clock: FakeClock, queue: FakeQueue
) -> None:
    """The send took so long that the dead-letter queue delivered the message again."""

    class Slow(FakeQueue):
        def delete(self, message: Message) -> None:
            self.clock.advance(LEASE_SECONDS + 1)
            super().delete(message)

    graves = Slow(clock, lease_seconds=LEASE_SECONDS)
    graves.send(["a"])
    moved = redrive_messages(graves, queue)
    assert moved.left == 1
    assert moved.messages >= 1
    assert set(queue.bodies()) == {"a"}
