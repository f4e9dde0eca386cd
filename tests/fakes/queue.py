"""A standard SQS queue in memory, strict where moto is lax.

A lost lease can neither extend nor delete, however the message fares since; bodies that SQS refuses
are refused; leases end after 12 h in all; leased messages are limited. Time is a ``FakeClock``'s:
``receive`` never waits, and leases run out by ``clock.advance`` alone.
"""

import itertools
import random
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from spotgrad.errors import LeaseLost, Malformed, StoreUnavailable, Unsupported
from spotgrad.ports import Message
from tests.fakes.clock import FakeClock
from tests.fakes.faults import Faults

MOST_BODY_BYTES = 1_048_576
MOST_LEASE_SECONDS = 43_200
MOST_IN_FLIGHT = 120_000
ALLOWED_CONTROL_CHARACTERS = "\t\n\r"


@dataclass
class _Entry:
    """One message in the queue; ``receipt`` is that of its latest delivery."""

    message_id: str
    body: str
    visible_at: float
    receive_count: int = 0
    receipt: str = ""
    received_at: float = 0.0


class FakeQueue:
    """The ports ``TaskQueue`` and ``TaskGauge``.

    Args:
        clock: runs the leases.
        lease_seconds: the queue's visibility timeout.
        max_receives: deliveries after which a message goes to ``dead_letters`` (redrive policy).
        dead_letters: where it goes.
        order: shuffles deliveries; without it they come in order of sending.
        most_in_flight: leased messages beyond which ``receive`` fails (OverLimit).

    Attributes:
        faults: order them with ``queue.faults.order(Fault.UNAVAILABLE, operation="extend")``.
        calls: number of calls by operation, failed ones included.
    """

    def __init__(
        self,
        clock: FakeClock | None = None,
        *,
        lease_seconds: float = 30,
        max_receives: int | None = None,
        dead_letters: "FakeQueue | None" = None,
        order: random.Random | None = None,
        most_in_flight: int = MOST_IN_FLIGHT,
    ) -> None:
        if (max_receives is None) != (dead_letters is None):
            raise ValueError("max_receives and dead_letters go together")
        self.clock = clock or FakeClock()
        self.faults = Faults()
        self.calls: Counter[str] = Counter()
        self._lease_seconds = lease_seconds
        self._max_receives = max_receives
        self._dead_letters = dead_letters
        self._order = order
        self._most_in_flight = most_in_flight
        self._lock = threading.RLock()
        self._entries: list[_Entry] = []
        self._numbers = itertools.count(1)
        self._duplicates = 0

    def send(self, bodies: Sequence[str]) -> None:
        for body in bodies:
            _check_body(body)
        self._begin("send")
        with self._lock:
            for body in bodies:
                name = f"message-{next(self._numbers)}"
                self._entries.append(_Entry(name, body, visible_at=self.clock.monotonic()))
        self.faults.raise_answer_lost("send")

    def receive(self, *, most: int, wait_seconds: float) -> Sequence[Message]:
        if not 1 <= most <= 10:
            raise Unsupported(f"receive {most}: SQS delivers 1 to 10 messages at once")
        if not wait_seconds >= 0:
            raise Unsupported(f"receive with a wait of {wait_seconds} s")
        self._begin("receive")
        with self._lock:
            self._bury()
            if self.in_flight() >= self._most_in_flight:
                raise StoreUnavailable(f"OverLimit: {self._most_in_flight} messages in flight")
            waiting = [entry for entry in self._entries if not self._is_leased(entry)]
            if self._order is not None:
                self._order.shuffle(waiting)
            return [self._deliver(entry) for entry in waiting[:most]]

    def extend(self, message: Message, *, lease_seconds: int) -> None:
        self._begin("extend")
        with self._lock:
            entry = self._leased(message)
            end = self.clock.monotonic() + lease_seconds
            if lease_seconds < 0 or end - entry.received_at > MOST_LEASE_SECONDS:
                raise Unsupported(
                    f"lease of {lease_seconds} s: a lease ends {MOST_LEASE_SECONDS} s after its "
                    "receive"
                )
            entry.visible_at = end
        self.faults.raise_answer_lost("extend")

    def delete(self, message: Message) -> None:
        self._begin("delete")
        with self._lock:
            self._entries.remove(self._leased(message))
        self.faults.raise_answer_lost("delete")

    def depth(self) -> int:
        self._begin("depth")
        with self._lock:
            return len(self._entries)

    def duplicate(self, times: int = 1) -> None:
        """Deliver each of the next ``times`` messages twice, whatever becomes of the first one."""
        with self._lock:
            self._duplicates += times

    def lose(self, number: int) -> None:
        """Let one message vanish, leased or not, as at the end of its retention period."""
        with self._lock:
            if self._entries:
                del self._entries[number % len(self._entries)]

    def in_flight(self) -> int:
        """Return how many messages are leased now."""
        with self._lock:
            return sum(self._is_leased(entry) for entry in self._entries)

    def bodies(self) -> list[str]:
        """Return the bodies of all messages, leased ones too, in order of sending."""
        with self._lock:
            return [entry.body for entry in self._entries]

    def _begin(self, operation: str) -> None:
        with self._lock:
            self.calls[operation] += 1
        self.faults.raise_unavailable(operation)

    def _is_leased(self, entry: _Entry) -> bool:
        return entry.visible_at > self.clock.monotonic()

    def _leased(self, message: Message) -> _Entry:
        for entry in self._entries:
            if entry.receipt == message.receipt and self._is_leased(entry):
                return entry
        raise LeaseLost(f"message {message.message_id}: {message.receipt} is no longer its lease")

    def _deliver(self, entry: _Entry) -> Message:
        entry.receive_count += 1
        entry.received_at = self.clock.monotonic()
        entry.visible_at = entry.received_at + self._lease_seconds
        entry.receipt = f"receipt-{next(self._numbers)}"
        if self._duplicates:
            self._duplicates -= 1
            now = entry.received_at
            self._entries.append(_Entry(entry.message_id, entry.body, now, entry.receive_count))
        return Message(entry.message_id, entry.body, entry.receipt, entry.receive_count)

    def _bury(self) -> None:
        if self._max_receives is None or self._dead_letters is None:
            return
        for entry in list(self._entries):
            if not self._is_leased(entry) and entry.receive_count >= self._max_receives:
                self._entries.remove(entry)
                self._dead_letters.send([entry.body])


def _check_body(body: str) -> None:
    for character in body:
        control = character < " " and character not in ALLOWED_CONTROL_CHARACTERS
        if control or "\ud800" <= character <= "\udfff" or character in "\ufffe\uffff":
            raise Malformed(f"message holds {character!r}: SQS refuses it")
    if not 1 <= len(body.encode()) <= MOST_BODY_BYTES:
        raise Malformed(f"message of {len(body.encode())} bytes: SQS takes 1 to {MOST_BODY_BYTES}")
