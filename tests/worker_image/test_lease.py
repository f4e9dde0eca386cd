import threading

import pytest

from spotgrad.errors import LeaseLost
from spotgrad.ports import Message
from tests.fakes.clock import FakeClock
from tests.fakes.faults import Fault
from tests.fakes.queue import FakeQueue
from worker_image.lease import HeldTooLong, Lease


class ObservedQueue(FakeQueue):
    """Counts what was extended, and says so."""

    def __init__(self, clock: FakeClock, *, lease_seconds: int) -> None:
        super().__init__(clock, lease_seconds=lease_seconds)
        self.beaten = threading.Event()
        self.extended = 0

    def extend(self, message: Message, *, lease_seconds: int) -> None:
        super().extend(message, lease_seconds=lease_seconds)
        self.extended += 1
        self.beaten.set()


class Held:
    """A message under a lease of 12 s, received at second 0."""

    def __init__(self, lease_seconds: int = 12) -> None:
        self.clock = FakeClock()
        self.queue = ObservedQueue(self.clock, lease_seconds=lease_seconds)
        self.queue.send(["body"])
        self.message: Message = self.queue.receive(most=1, wait_seconds=0)[0]
        self.lease = Lease(
            self.queue,
            self.message,
            self.clock,
            lease_seconds=lease_seconds,
            received_at=0.0,
        )

    @property
    def beats(self) -> int:
        return self.queue.extended

    def beat_when_due(self) -> None:
        self.clock.advance(self.lease.next_at - self.clock.monotonic())
        self.lease.make()


def test_a_beat_every_third_of_the_lease_keeps_the_message_for_an_hour() -> None:
    held = Held()
    while held.clock.monotonic() < 3_600:
        held.beat_when_due()
        held.lease.check()
        assert held.queue.receive(most=1, wait_seconds=0) == []  # another worker asks
    assert held.beats == 900
    assert held.message.receive_count == 1
    held.queue.delete(held.message)


def test_throttled_beats_are_tried_again_before_the_lease_is_over() -> None:
    held = Held()
    held.queue.faults.order(Fault.UNAVAILABLE, operation="extend", times=3)
    for _ in range(4):
        held.beat_when_due()
        held.lease.check()
    assert (held.queue.calls["extend"], held.beats) == (4, 1)
    assert held.lease.ends_at == pytest.approx(4 + 3 * 1 + 12)


def test_a_lease_is_over_when_every_beat_was_throttled() -> None:
    held = Held()
    held.queue.faults.order(Fault.UNAVAILABLE, operation="extend", times=99)
    tried = 0
    while held.clock.monotonic() < 11.5:
        held.beat_when_due()
        tried += held.clock.monotonic() < 12
    assert tried == 8
    held.clock.advance(0.5)
    with pytest.raises(LeaseLost, match="within the lease of 12 s"):
        held.lease.check()


def test_a_lease_lost_to_somebody_else_stays_lost() -> None:
    held = Held()
    held.queue.extend(held.message, lease_seconds=0)
    other = held.queue.receive(most=1, wait_seconds=0)
    assert len(other) == 1
    held.beat_when_due()
    for check in (held.lease.check, held.lease.check_held):
        with pytest.raises(LeaseLost):
            check()
    assert held.beats == 1  # giving it away


def test_a_worker_that_stalled_past_its_lease_does_not_even_ask_for_it() -> None:
    held = Held()
    held.clock.advance(12)
    with pytest.raises(LeaseLost):
        held.lease.check()
    held.lease.make()
    assert held.queue.calls["extend"] == 0
    with pytest.raises(LeaseLost):
        held.lease.check()


def test_before_twelve_hours_there_is_a_clear_end() -> None:
    held = Held(lease_seconds=7_200)
    while held.lease.problem is None:
        held.beat_when_due()
    assert held.clock.monotonic() == 38_400  # one more lease would end after 43,200 s
    with pytest.raises(HeldTooLong, match=r"held for 38,400 s.*43,200 s; make the shards smaller"):
        held.lease.check()
    held.lease.check_held()  # the failure can still be reported
    held.queue.delete(held.message)


def test_the_thread_beats_when_a_beat_is_due_and_ends_with_the_block() -> None:
    held = Held()
    held.clock.advance(4)
    with held.lease as lease:
        assert held.queue.beaten.wait(10)
    assert lease.ends_at == 16
    assert held.beats == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "heartbeat"]


def test_the_thread_ends_by_itself_when_the_lease_is_lost() -> None:
    held = Held()
    held.clock.advance(12)
    with held.lease as lease:
        lease._thread.join(10)
        assert not lease._thread.is_alive()
    with pytest.raises(LeaseLost):
        lease.check()


def test_a_block_that_ends_early_does_not_wait_for_the_next_beat() -> None:
    held = Held(lease_seconds=3_000)
    with pytest.raises(KeyError), held.lease:
        raise KeyError
    assert held.beats == 0
