"""``attempts/<job>/<epoch>/<subtask>/<attempt>.json``: a worker's heartbeat and how it ended.

Written at the start, every third of a lease and at the end. Ages are taken from the store's
modification time, never from these clocks, which are for people.
"""

from datetime import datetime
from typing import ClassVar, Literal

from spotgrad.protocol.job import JobName
from spotgrad.protocol.result import Base
from spotgrad.protocol.wire import Document, Identifier, SubtaskText

AttemptOutcome = Literal["uploaded", "failed", "returned", "lease-lost", "dropped"]
"""``returned``: the message was given back, perhaps with a partial; ``dropped``: the subtask was
found not open any more (its job was cancelled or paused, or another attempt came first)."""


class Attempt(Document):
    """One worker's try at one subtask."""

    what: ClassVar[str] = "attempt record"

    job: JobName
    run: Identifier
    epoch: int
    subtask: SubtaskText
    attempt: Identifier
    worker: str
    base: Base | None
    started_at: datetime
    beat_at: datetime
    lease_seconds: int | None = None
    """How long the attempt may go without a beat before its message is anybody's; None: unsaid."""
    outcome: AttemptOutcome | None = None
    """Nothing while the attempt is alive; for ever, if its worker vanished."""
