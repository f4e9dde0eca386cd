"""What the steps and the worker need from the world: ten tiny Protocols, and no implementation.

Adapters live in ``spotgrad.aws`` (S3, SQS, Batch, SNS), ``spotgrad.directory`` (a folder) and
``tests/fakes``.
One contract suite per port runs against each of them. Every method may raise ``Retry`` (the call
may work later) and ``AccessDenied``; what else a method raises is said where it is declared.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from spotgrad.planning.fleet import FleetView
from spotgrad.planning.offer import Offer

__all__ = [
    "ABSENT",
    "Absent",
    "Announcer",
    "Clock",
    "DeadLetters",
    "Message",
    "NewId",
    "ObjectInfo",
    "ObjectReader",
    "ObjectStore",
    "ObjectSweeper",
    "StoredObject",
    "TaskGauge",
    "TaskQueue",
    "TaskSender",
    "WorkerFleet",
]


@dataclass(frozen=True)
class StoredObject:
    """One object as it was read: the bytes and the entity tag that names this very content."""

    body: bytes
    etag: str


@dataclass(frozen=True)
class ObjectInfo:
    """One row of a listing. ``modified_at`` is the store's clock, never a worker's."""

    key: str
    size_bytes: int
    etag: str
    modified_at: datetime


@dataclass(frozen=True)
class Message:
    """One delivery of one message; ``receipt`` is valid for this delivery's lease only."""

    message_id: str
    body: str
    receipt: str
    receive_count: int


@dataclass(frozen=True)
class Absent:
    """Condition of a write: the key must not exist yet (HTTP ``If-None-Match: *``)."""


ABSENT = Absent()


class ObjectReader(Protocol):
    """Strongly consistent reads: a completed write is seen by every later read."""

    def get(self, key: str) -> StoredObject:
        """Return the whole object.

        Raises:
            NotFound: there is no such key.
        """
        ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield every object whose key starts with ``prefix``, in ascending order of key."""
        ...


class ObjectStore(ObjectReader, Protocol):
    """Reads, and atomic writes of whole objects."""

    def put(self, key: str, body: bytes, *, only_if: Absent | str | None = None) -> str:
        """Write the whole object, at once or not at all, and return its new entity tag.

        ``only_if`` is an entity tag that the present object must have, or ``ABSENT``.

        Raises:
            ConditionFailed: the condition does not hold, or another conditional write is in
                progress (S3 answers 412 and 409; a missing key under an entity tag counts too).
        """
        ...


class ObjectSweeper(ObjectStore, Protocol):
    """A store that also deletes; only ``reconcile`` and ``local run`` hold one."""

    def delete(self, key: str) -> None:
        """Delete the object; a key that does not exist is no error."""
        ...


class TaskSender(Protocol):
    """The sending half of a queue."""

    def send(self, bodies: Sequence[str]) -> None:
        """Send every body, each at least once; any order. Raises before it drops one."""
        ...


class TaskQueue(TaskSender, Protocol):
    """At-least-once delivery under leases (SQS visibility timeout)."""

    def receive(self, *, most: int, wait_seconds: float) -> Sequence[Message]:
        """Lease up to ``most`` (1 to 10) messages, waiting up to ``wait_seconds`` for the first."""
        ...

    def extend(self, message: Message, *, lease_seconds: int) -> None:
        """Let this lease end ``lease_seconds`` from now; 0 gives the message back at once.

        Raises:
            LeaseLost: the lease ran out, or the message is deleted.
        """
        ...

    def delete(self, message: Message) -> None:
        """Acknowledge: the message is not delivered again.

        Raises:
            LeaseLost: the lease ran out and somebody else may hold the message.
        """
        ...


class TaskGauge(Protocol):
    """How full a queue is; approximate, as SQS counts."""

    def depth(self) -> int:
        """Return the approximate number of messages that wait, are delayed or are leased."""
        ...


class DeadLetters(TaskQueue, TaskGauge, Protocol):
    """Where messages lie that were delivered too often; they are counted, leased and deleted."""


class WorkerFleet(Protocol):
    """Machines of one kind on which workers run. Workers leave by themselves when idle."""

    @property
    def offer(self) -> Offer:
        """Return what its workers run on; it never changes."""
        ...

    def look(self) -> FleetView:
        """Return how the fleet stands."""
        ...

    def start(self, workers: int) -> None:
        """Start so many more. Not idempotent; when it raises, some may have been started."""
        ...


class Announcer(Protocol):
    """Whoever wants to hear of a job's states; nobody's answer is waited for."""

    def announce(self, subject: str, body: str) -> None:
        """Tell ``body``, a JSON document, under one line of at most 100 ASCII characters."""
        ...


class Clock(Protocol):
    """Time, passed in. Ages across machines come from ``ObjectInfo.modified_at`` instead."""

    def now(self) -> datetime:
        """Return the present time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds from an arbitrary origin that never go back."""
        ...


NewId = Callable[[], str]
"""Draws a fresh identifier (lower-case hexadecimal); randomness is passed in."""
