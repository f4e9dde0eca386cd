"""The fold "state + one outcome -> new state": what a single result does to the head.

Not what follows from it: ``settle`` closes epochs, issues and ends. Every function here takes a
subtask that is open (``standing.why_not_open`` said None) and returns a new head.
"""

from dataclasses import dataclass
from typing import Literal

from spotgrad.errors import NotOpen
from spotgrad.planning.standing import number_of, open_progress, with_progress
from spotgrad.protocol.head import (
    DeadSubtask,
    EpochProgress,
    EvaluationProgress,
    Fault,
    Head,
    WorkItem,
)
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.result import Sum

Cause = Literal["refused", "failed"]


@dataclass(frozen=True)
class Mishap:
    """An attempt that came to nothing: the gate refused its result, or the user's code raised."""

    cause: Cause
    attempt: str
    reason: str
    evidence: str


def count_merged(head: Head, item: WorkItem) -> Head:
    """Return the head with this training (or initialization) subtask merged."""
    progress = open_progress(head, item)
    if not isinstance(progress, EpochProgress):
        raise NotOpen(f"{item.subtask} is an evaluation: it is never merged")
    return _forget(with_progress(head, item, merged=progress.merged.with_(number_of(item))), item)


def count_evaluated(head: Head, item: WorkItem, sums: dict[str, Sum]) -> Head:
    """Return the head with this evaluation subtask's sums noted."""
    progress = open_progress(head, item)
    if not isinstance(progress, EvaluationProgress):
        raise NotOpen(f"{item.subtask} is no evaluation: it has no sums")
    return _forget(with_progress(head, item, sums=progress.sums | {number_of(item): sums}), item)


def already_counted(head: Head, item: WorkItem, attempt: str) -> bool:
    """Return whether this attempt was counted as a mishap before (its event came twice)."""
    fault = _fault_of(head, item)
    return attempt in fault.refused or attempt in fault.failed


def count_mishap(head: Head, plan: JobPlan, item: WorkItem, mishap: Mishap) -> Head:
    """Return the head with the subtask issued again, or dead when its retries are used up."""
    fault = _fault_of(head, item)
    attempts = (*getattr(fault, mishap.cause), mishap.attempt)
    fault = fault.model_copy(update={str(mishap.cause): attempts})
    counts = {str(mishap.cause): getattr(head.counts, mishap.cause) + 1}
    head = head.model_copy(update={"counts": head.counts.model_copy(update=counts)})
    progress = open_progress(head, item)
    if mishap.cause == "refused" and isinstance(progress, EpochProgress):
        head = with_progress(head, item, refused=progress.refused.with_(number_of(item)))
    retries = plan.spec.retries
    allowed = retries.refusals if mishap.cause == "refused" else retries.failures
    if len(attempts) > allowed:
        reason = f"{mishap.cause} {len(attempts)} times, last: {mishap.reason}"
        return bury(head, item, reason, mishap.evidence)
    others = tuple(one for one in head.faults if not _same(one, item))
    return reissue(head.model_copy(update={"faults": (*others, fault)}), item)


def reissue(head: Head, item: WorkItem) -> Head:
    """Return the head with the subtask in its outbox once more."""
    counts = head.counts.model_copy(update={"reissued": head.counts.reissued + 1})
    plain = WorkItem(epoch=item.epoch, subtask=item.subtask)
    return head.model_copy(update={"outbox": (*head.outbox, plain), "counts": counts})


def bury(head: Head, item: WorkItem, reason: str, evidence: str | None) -> Head:
    """Return the head with the subtask dead: it is not tried again and its epoch goes on."""
    dead = open_progress(head, item).dead.with_(number_of(item))
    grave = DeadSubtask(epoch=item.epoch, subtask=item.subtask, reason=reason, evidence=evidence)
    head = with_progress(head, item, dead=dead)
    return _forget(head.model_copy(update={"dead": (*head.dead, grave)}), item)


def _same(one: WorkItem, other: WorkItem) -> bool:
    return (one.epoch, one.subtask) == (other.epoch, other.subtask)


def _fault_of(head: Head, item: WorkItem) -> Fault:
    found = (fault for fault in head.faults if _same(fault, item))
    return next(found, Fault(epoch=item.epoch, subtask=item.subtask))


def _forget(head: Head, item: WorkItem) -> Head:
    """Return the head without what is only kept while a subtask is open."""
    return head.model_copy(
        update={
            "faults": tuple(one for one in head.faults if not _same(one, item)),
            "reissued": tuple(one for one in head.reissued if not _same(one, item)),
            "outbox": tuple(one for one in head.outbox if not _same(one, item)),
        }
    )
