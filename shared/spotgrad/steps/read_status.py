"""How a job stands, in one document: what ``status``, ``list``, ``watch`` and ``local run`` show.

Reads alone. The head is the truth; attempt records only say who is at work. ``describe`` is the
pure half. Invariant: what nobody knows (a price, a start before planning) is null, never guessed.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import ClassVar, Final

from pydantic import Field

from spotgrad.errors import Malformed, NotFound
from spotgrad.planning.standing import open_items
from spotgrad.ports import ObjectReader
from spotgrad.protocol.attempt import Attempt
from spotgrad.protocol.head import ENDED, DeadSubtask, Head, JobState, WorkItem
from spotgrad.protocol.keys import (
    JOBS_PREFIX,
    AttemptKey,
    JobFileKey,
    RefusedKey,
    SpecKey,
    attempts_prefix,
)
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.receipt import Receipt
from spotgrad.protocol.refusal import Refusal
from spotgrad.protocol.tensors import digest
from spotgrad.protocol.wire import Document, Part
from spotgrad.steps.documents import find_document, find_head, read_document, read_plan
from spotgrad.steps.receipt import find_receipt

__all__ = ["Cost", "Quorum", "Status", "SubtaskCounts", "describe", "list_jobs", "read_status"]

ALIVE_FOR: Final = timedelta(minutes=5)
"""A record that does not say its lease, and is older than this, is no sign of life."""
LONGEST_LEASE: Final = timedelta(hours=12)  # SQS: a visibility timeout is at most that


class SubtaskCounts(Part):
    """Training subtasks of the whole job, all epochs; null before there is a plan to count by."""

    total: int | None = None
    merged: int = 0
    in_flight: int = 0
    """Issued, and neither merged nor dead: waiting in the queue or with a worker."""
    rejected: int = 0
    """Results that the admission gate refused."""
    failed: int = 0
    """Attempts in which the user's code raised."""
    retried: int = 0
    """Subtasks that were sent again, for whatever cause."""
    dead: int = 0
    dropped: int = 0
    """Those that a synchronous round did not wait for."""
    late: int = 0
    """Gradients at a version that the model had left behind: computed again."""


class Quorum(Part):
    """What the comparison of results has come to, where the job asks for one."""

    checks: int = 0
    """Merged subtasks that other workers are training again."""
    outvoted: dict[str, int] = Field(default_factory=dict)
    """How often each worker stood alone."""
    quarantined: tuple[str, ...] = ()
    """The workers of which nothing is taken any more."""


class Cost(Part):
    """What the job cost, from its receipt; null where nobody has said a price."""

    usd: float | None = None
    on_demand_usd: float | None = None
    saved_percent: float | None = None


class Status(Document):
    """The document of ``status --json``: others script against it, so fields are only added."""

    what: ClassVar[str] = "status"

    job: str
    state: JobState
    reason: str | None = None
    epoch: int | None = None
    """The oldest epoch that is open (0 while the model is initialized), or the last one."""
    epochs: int | None = None
    version: int | None = None
    subtasks: SubtaskCounts = SubtaskCounts()
    metrics: dict[str, float] = Field(default_factory=dict)
    workers: int = 0
    cost: Cost = Cost()
    quorum: Quorum | None = None
    """Null where the job asks for none."""
    dead_subtasks: tuple[DeadSubtask, ...] = ()
    started_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def ended(self) -> bool:
        """Return whether the job is over."""
        return self.state in ENDED


def read_status(store: ObjectReader, job: str, now: datetime) -> Status:
    """Return how the job stands; ``now`` tells which attempt records are signs of life.

    Raises:
        NotFound: there is no such job.
    """
    found = find_head(store, job)
    if found is None:
        return _before_planning(store, job)
    head = found.head
    plan, workers = read_plan(store, job), _workers(store, head, now)
    return describe(head, plan, workers, find_receipt(store, head))


def describe(
    head: Head, plan: JobPlan, workers: Iterable[str] = (), receipt: Receipt | None = None
) -> Status:
    """Return the status of a planned job; ``workers`` are the names of those at work."""
    training = [item for item in open_items(head) if _is_training(item)]
    return Status(
        job=head.job,
        state=head.state,
        reason=head.reason,
        epoch=_epoch(head, plan),
        epochs=plan.spec.epochs,
        version=head.version,
        subtasks=SubtaskCounts(
            total=plan.spec.epochs * plan.train_shards,
            merged=head.results_merged,
            in_flight=len(training),
            rejected=head.counts.refused,
            failed=head.counts.failed,
            retried=head.counts.reissued,
            dead=sum(_is_training(grave) for grave in head.dead),
            dropped=head.counts.dropped,
            late=head.counts.late,
        ),
        metrics=head.metrics,
        workers=len(set(workers)),
        cost=Cost() if receipt is None else _cost(receipt),
        quorum=None if plan.spec.admission.quorum is None else _quorum(head),
        dead_subtasks=head.dead,
        started_at=head.started_at,
        updated_at=head.updated_at,
    )


def _quorum(head: Head) -> Quorum:
    quarantined = tuple(sorted(head.quarantined))
    return Quorum(checks=len(head.checks), outvoted=head.dissent, quarantined=quarantined)


def _cost(receipt: Receipt) -> Cost:
    return Cost(
        usd=round(receipt.usd, 6),
        on_demand_usd=receipt.on_demand_usd,
        saved_percent=receipt.saved_percent,
    )


def list_jobs(store: ObjectReader) -> Iterator[str]:
    """Yield the name of every job whose job file is in the bucket, in ascending order."""
    # Not from state/: that holds a ledger entry per commit, and a listing pays for each.
    for info in store.list(JOBS_PREFIX):
        try:
            yield JobFileKey.parse(info.key).job
        except Malformed:
            continue  # code, control files, and whatever else a user puts there


def _before_planning(store: ObjectReader, job: str) -> Status:
    plan = find_document(store, SpecKey(job).render(), JobPlan)
    refusal = find_document(store, RefusedKey(job).render(), Refusal)
    job_file = _find_bytes(store, JobFileKey(job).render())
    if plan is not None:
        total = plan.spec.epochs * plan.train_shards
        counts = SubtaskCounts(total=total)
        return Status(job=job, state="PLANNING", epochs=plan.spec.epochs, subtasks=counts)
    if refusal is not None and (job_file is None or digest(job_file) == refusal.job_file_sha256):
        return Status(job=job, state="FAILED", reason=refusal.reason, updated_at=refusal.at)
    if job_file is None:
        raise NotFound(f"job {job!r}: not in this bucket; spotgrad list shows which are")
    return Status(job=job, state="PLANNING")


def _find_bytes(store: ObjectReader, key: str) -> bytes | None:
    try:
        return store.get(key).body
    except NotFound:
        return None


def _workers(store: ObjectReader, head: Head, now: datetime) -> Iterator[str]:
    """Yield the worker of every attempt that is alive: recent, without an end, at open work."""
    items = {(item.epoch, item.subtask) for item in open_items(head)}
    for epoch in sorted({epoch for epoch, _ in items}):
        for info in store.list(attempts_prefix(head.job, epoch)):
            key = AttemptKey.parse(info.key)
            age = now - info.modified_at
            if (epoch, key.subtask) in items and age <= LONGEST_LEASE:
                attempt = read_document(store, info.key, Attempt)
                if attempt.outcome is None and attempt.run == head.run and age <= _lease(attempt):
                    yield attempt.worker


def _lease(attempt: Attempt) -> timedelta:
    """Return how long the attempt lives without a beat: then its message is anybody's."""
    seconds = attempt.lease_seconds
    return ALIVE_FOR if seconds is None else timedelta(seconds=seconds)


def _epoch(head: Head, plan: JobPlan) -> int:
    for evaluation in head.evaluated:
        if evaluation.model == head.final:
            return evaluation.epoch
    return head.epochs[0].epoch if head.epochs else plan.spec.epochs


def _is_training(item: WorkItem) -> bool:
    return item.subtask.startswith("train-")
