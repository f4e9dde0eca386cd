"""What the loop and its handler share: the world's ports, this worker's ways, one open subtask."""

from dataclasses import dataclass
from typing import Protocol

from spotgrad.ports import Clock, Message, NewId, ObjectStore, TaskGauge, TaskQueue
from spotgrad.protocol.head import Head
from spotgrad.protocol.subtask import Subtask

__all__ = ["Assignment", "Options", "Ports", "Queue"]


class Queue(TaskQueue, TaskGauge, Protocol):
    """The queue of subtasks."""


@dataclass(frozen=True)
class Ports:
    """What the worker needs from the world."""

    store: ObjectStore
    queue: Queue
    clock: Clock
    new_id: NewId


@dataclass(frozen=True)
class Options:
    """How this worker behaves; ``until_idle_seconds`` of nothing means for ever."""

    worker: str
    lease_seconds: int
    until_idle_seconds: float | None = None
    slow_seconds: float = 0.0
    """Waited in every training subtask after its attempt record is written: for fault tests."""
    notice_seconds: float = 0.0
    """What a request to stop leaves when it does not say so itself."""
    held: Message | None = None
    """A message that the process before this one received."""


@dataclass(frozen=True)
class Assignment:
    """One open subtask, under one message."""

    message: Message
    received_at: float
    subtask: Subtask
    head: Head
    attempt: str

    @property
    def where(self) -> str:
        """Return the keys that every log line carries."""
        it = self.subtask
        return f"job={it.job} epoch={it.epoch} subtask={it.subtask} attempt={self.attempt}"

    @property
    def path(self) -> tuple[str, int, str, str]:
        """Return what every key of this attempt is made of."""
        return self.subtask.job, self.subtask.epoch, self.subtask.subtask, self.attempt
