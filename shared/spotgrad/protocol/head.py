"""``state/<job>/head.json``: the only object of a job that functions change in place.

A model version exists when, and only when, the head names it. The head holds all that decides what
happens next, so every decision is a pure function of the head, the plan and what arrived.
Invariant: ``revision`` grows by one per commit, so no two heads of a job are equal.
"""

from datetime import datetime
from typing import ClassVar, Literal

from pydantic import Field

from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.job import JobName
from spotgrad.protocol.result import Sum
from spotgrad.protocol.subtask import ModelRef
from spotgrad.protocol.wire import Document, Finite, Identifier, Part, Sha256, SubtaskText

JobState = Literal["PLANNING", "RUNNING", "PAUSED", "SUCCEEDED", "DEGRADED", "FAILED", "CANCELLED"]
ENDED: frozenset[JobState] = frozenset({"SUCCEEDED", "DEGRADED", "FAILED", "CANCELLED"})


class ObjectRef(Part):
    """One immutable object: its key and what its bytes must be."""

    key: str
    sha256: Sha256
    size_bytes: int = Field(gt=0)


class Progress(Part):
    """What an open epoch and an open evaluation have in common: numbered subtasks."""

    epoch: int = Field(ge=0)
    subtasks: int = Field(gt=0)
    issued: Bitmap = Bitmap()
    dead: Bitmap = Bitmap()
    issued_at: datetime
    """When a subtask of it was last issued for the first time."""

    @property
    def done(self) -> Bitmap:
        """Return the subtasks of which nothing more is expected."""
        return self.dead

    @property
    def complete(self) -> bool:
        """Return whether nothing is left to do."""
        return self.done.count == self.subtasks


class EpochProgress(Progress):
    """An open epoch. Epoch 0 is the initialization: one subtask, number 0."""

    merged: Bitmap = Bitmap()
    refused: Bitmap = Bitmap()
    dropped: Bitmap = Bitmap()
    """Those that a synchronous round did not wait for."""
    begun_at: datetime | None = None
    """When the epoch was opened."""
    start: ModelRef | None = None
    """The version that its subtasks begin from; without one, the latest when they begin."""

    @property
    def done(self) -> Bitmap:
        """Return the subtasks that are merged, dead or dropped."""
        return self.merged.union(self.dead).union(self.dropped)


class EvaluationProgress(Progress):
    """The evaluation of the version that closed an epoch, while training goes on."""

    model: ModelRef
    sums: dict[int, dict[str, Sum]] = Field(default_factory=dict)
    begun_at: datetime | None = None
    """An epoch may be evaluated again; results that are older belong to the last time."""

    @property
    def done(self) -> Bitmap:
        """Return the subtasks that have reported or are dead."""
        return Bitmap.of(self.sums).union(self.dead)


class Evaluation(Part):
    """A finished evaluation."""

    epoch: int
    model: ModelRef
    metrics: dict[str, Finite]


class WorkItem(Part):
    """A subtask by epoch and name: what the outbox sends."""

    epoch: int = Field(ge=0)
    subtask: SubtaskText


class Fault(WorkItem):
    """Attempts of an open subtask that count against its retries, each counted once."""

    refused: tuple[Identifier, ...] = ()
    failed: tuple[Identifier, ...] = ()
    norms: tuple[Finite, ...] = ()
    """Of the refused updates that were too long."""
    forgiven: tuple[Identifier, ...] = ()
    """Those from before the subtask was redriven: their results count no second time."""
    redriven_at: datetime | None = None
    """Interruptions before that moment are forgiven too."""


class DeadSubtask(WorkItem):
    """A subtask that is not tried again, and the last thing that was wrong with it."""

    reason: str
    evidence: str | None = None
    """The key of the refused or failed result."""
    attempts: tuple[Identifier, ...] = ()
    """Every attempt that was counted against it."""
    model: ModelRef | None = None
    """What a dead evaluation was to evaluate."""


class Reissue(WorkItem):
    """When an open subtask was last sent again."""

    at: datetime


LIMIT = 2
"""Whoever is outvoted so often is quarantined."""


class Opinion(Part):
    """One worker's result of a subtask that is trained more than once."""

    worker: str
    attempt: Identifier
    key: str


class Check(WorkItem):
    """A merged subtask that other workers train again, from the same version."""

    model: ModelRef
    opinions: tuple[Opinion, ...]
    begun_at: datetime
    sent_at: datetime


class Counts(Part):
    """Running totals, for people."""

    refused: int = 0
    failed: int = 0
    reissued: int = 0
    """Subtasks sent again, for whatever cause."""
    speculative: int = 0
    """Of these, second copies for stragglers."""
    dropped: int = 0
    """Subtasks that a synchronous round did not wait for."""
    late: int = 0
    """Gradients at a version that the model had left behind: computed again."""


class Head(Document):
    """The state of one job; see the module docstring."""

    what: ClassVar[str] = "head"

    job: JobName
    run: Identifier
    revision: int = Field(ge=0)
    commit: Identifier
    ledger: str
    state: JobState
    reason: str | None = None
    version: int | None = None
    results_merged: int = Field(default=0, ge=0)
    objects: dict[str, ObjectRef] = Field(default_factory=dict)
    """The server copy and what the merge rule keeps beside it: momentum, buffer, ema."""
    model: ModelRef | None = None
    final: ModelRef | None = None
    epochs: tuple[EpochProgress, ...] = ()
    late: tuple[EpochProgress, ...] = ()
    """Epochs that were closed already, in which dead subtasks were redriven."""
    evaluations: tuple[EvaluationProgress, ...] = ()
    evaluated: tuple[Evaluation, ...] = ()
    faults: tuple[Fault, ...] = ()
    dead: tuple[DeadSubtask, ...] = ()
    norms: tuple[Finite, ...] = ()
    losses: tuple[Finite, ...] = ()
    """On held-out samples, of the last accepted results."""
    tally: dict[str, Finite] = Field(default_factory=dict)
    """What the merge rule remembers between two batches, beside its ``objects``."""
    outbox: tuple[WorkItem, ...] = ()
    reissued: tuple[Reissue, ...] = ()
    speculative: tuple[WorkItem, ...] = ()
    """Open subtasks that went out a second time because they were slow: once each."""
    checks: tuple[Check, ...] = ()
    """Merged subtasks whose result is compared with another worker's."""
    dissent: dict[str, int] = Field(default_factory=dict)
    """How often each worker's result was outvoted."""
    counts: Counts = Counts()
    last_mishap: str | None = None
    """What was last refused or failed, and why."""
    resume_token: str | None = None
    redrive_token: str | None = None
    """The last redrive that was carried out."""
    started_at: datetime
    updated_at: datetime
    progressed_at: datetime | None = None
    """When a subtask last came to its end, or the user last moved the job."""

    @property
    def ended(self) -> bool:
        """Return whether the job is over; nothing of it is open any more."""
        return self.state in ENDED

    @property
    def quarantined(self) -> frozenset[str]:
        """Return the workers whose results are not taken any more."""
        return frozenset(worker for worker, times in self.dissent.items() if times >= LIMIT)

    @property
    def moved_at(self) -> datetime:
        """Return when the job last got on, or began."""
        return self.progressed_at or self.started_at

    @property
    def metrics(self) -> dict[str, float]:
        """Return the latest value of each metric."""
        latest: dict[str, float] = {}
        for evaluation in self.evaluated:
            latest |= evaluation.metrics
        return latest
