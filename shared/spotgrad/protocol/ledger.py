"""One entry per commit: what it changed, in which order, with which coefficients.

The chain (each entry names its predecessor) is the proof that ``audit`` reads and the recipe that
``replay`` follows: coefficients are recorded, so no merge rule is needed to rebuild a version.
"""

from datetime import datetime
from typing import ClassVar

from pydantic import Field

from spotgrad.protocol.head import DeadSubtask, JobState, ObjectRef, WorkItem
from spotgrad.protocol.job import JobName
from spotgrad.protocol.result import Base
from spotgrad.protocol.wire import Document, Finite, Identifier, Sha256


class MergedResult(WorkItem):
    """A result that entered the server copy with this coefficient."""

    attempt: Identifier
    key: str
    sha256: Sha256
    samples: int
    staleness: int = Field(ge=0)
    base: Base
    coefficient: Finite
    update_norm: Finite


class SetAside(WorkItem):
    """A result that was refused, or that reports a failure: never merged."""

    attempt: Identifier
    key: str
    reason: str


class LedgerEntry(Document):
    """``state/<job>/ledger/<revision>-<commit>.json``."""

    what: ClassVar[str] = "ledger entry"

    job: JobName
    run: Identifier
    revision: int = Field(ge=0)
    commit: Identifier
    previous: str | None
    at: datetime
    state: JobState
    version: int | None
    results_merged: int
    start: ObjectRef | None = None
    """The server copy that was merged into; nothing for the first version."""
    server: ObjectRef | None = None
    """The new server copy, when this commit made a version."""
    server_coefficient: Finite | None = None
    initialized_from: SetAside | None = None
    merged: tuple[MergedResult, ...] = ()
    refused: tuple[SetAside, ...] = ()
    failed: tuple[SetAside, ...] = ()
    evaluated: tuple[SetAside, ...] = ()
    dead: tuple[DeadSubtask, ...] = ()
    redriven: tuple[WorkItem, ...] = ()
    """Subtasks that were dead and are tried again."""
    closed_epochs: tuple[int, ...] = ()
    issued: tuple[WorkItem, ...] = ()
