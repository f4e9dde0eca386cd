"""The fold "state + one outcome -> new state": what a single result does to the head.

Not what follows from it: ``settle`` closes epochs, issues and ends. Every function here takes a
subtask that is open (``standing.why_not_open`` said None) and returns a new head.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from spotgrad.errors import NotOpen
from spotgrad.planning.standing import (
    check_of,
    fault_of,
    number_of,
    open_progress,
    plain,
    with_progress,
    without,
)
from spotgrad.protocol.head import (
    DeadSubtask,
    EpochProgress,
    EvaluationProgress,
    Fault,
    Head,
    Reissue,
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
    at: datetime
    """When it is counted; the subtask goes out again then."""
    norm: float | None = None
    """Of an update that was refused for its length."""


def count_merged(head: Head, item: WorkItem) -> Head:
    """Return the head with this training (or initialization) subtask merged.

    Raises:
        NotOpen: the epoch is not open, or ``item`` is an evaluation.
    """
    progress = open_progress(head, item)
    if not isinstance(progress, EpochProgress):
        raise NotOpen(f"{item.subtask} is an evaluation: it is never merged")
    return _forget(with_progress(head, item, merged=progress.merged.with_(number_of(item))), item)


def count_evaluated(head: Head, item: WorkItem, sums: dict[str, Sum]) -> Head:
    """Return the head with this evaluation subtask's sums noted.

    Raises:
        NotOpen: the evaluation is not open, or ``item`` is none.
    """
    progress = open_progress(head, item)
    if not isinstance(progress, EvaluationProgress):
        raise NotOpen(f"{item.subtask} is no evaluation: it has no sums")
    return _forget(with_progress(head, item, sums=progress.sums | {number_of(item): sums}), item)


def already_counted(head: Head, item: WorkItem, attempt: str) -> bool:
    """Return whether this attempt was counted before, though its subtask is open still."""
    check = check_of(head, item)
    heard = () if check is None else [one.attempt for one in check.opinions]
    return attempt in _attempts(fault_of(head, item)) or attempt in heard


def count_mishap(head: Head, plan: JobPlan, item: WorkItem, mishap: Mishap) -> Head:
    """Return the head with the subtask issued again, or dead when its retries are used up."""
    fault = fault_of(head, item)
    attempts = (*getattr(fault, mishap.cause), mishap.attempt)
    norms = fault.norms if mishap.norm is None else (*fault.norms, mishap.norm)
    fault = fault.model_copy(update={str(mishap.cause): attempts, "norms": norms})
    head = head.model_copy(update={"faults": (*without(head.faults, item), fault)})
    counts = {str(mishap.cause): getattr(head.counts, mishap.cause) + 1}
    said = f"{item.subtask} of epoch {item.epoch} {mishap.cause}: {mishap.reason}"
    head = head.model_copy(
        update={"counts": head.counts.model_copy(update=counts), "last_mishap": said}
    )
    progress = open_progress(head, item)
    if mishap.cause == "refused" and isinstance(progress, EpochProgress):
        head = with_progress(head, item, refused=progress.refused.with_(number_of(item)))
    retries = plan.spec.retries
    allowed = retries.refusals if mishap.cause == "refused" else retries.failures
    if len(attempts) > allowed:
        reason = f"{mishap.cause} {len(attempts)} times, last: {mishap.reason}"
        return bury(head, item, reason, mishap.evidence)
    return reissue(head, item, mishap.at)


def reissue(head: Head, item: WorkItem, now: datetime) -> Head:
    """Return the head with the subtask in its outbox (once), and a note of when."""
    counts = head.counts.model_copy(update={"reissued": head.counts.reissued + 1})
    note = Reissue(epoch=item.epoch, subtask=item.subtask, at=now)
    return head.model_copy(
        update={
            "counts": counts,
            "outbox": (*without(head.outbox, item), plain(item)),
            "reissued": (*without(head.reissued, item), note),
        }
    )


def send_again(head: Head, item: WorkItem, attempt: str, now: datetime) -> Head:
    """Return the head with the subtask sent out anew, since this attempt at it came too late.

    Nothing counts against it, and the attempt's event may come twice.
    """
    fault = fault_of(head, item)
    fault = fault.model_copy(update={"forgiven": (*fault.forgiven, attempt)})
    counts = head.counts.model_copy(update={"late": head.counts.late + 1})
    update = {"faults": (*without(head.faults, item), fault), "counts": counts}
    return reissue(head.model_copy(update=update), item, now)


def turn_away(head: Head, item: WorkItem, attempt: str, now: datetime) -> Head:
    """Return the head with the subtask sent again; the attempt was not its fault."""
    fault = fault_of(head, item)
    fault = fault.model_copy(update={"forgiven": (*fault.forgiven, attempt)})
    faults = (*without(head.faults, item), fault)
    counts = head.counts.model_copy(update={"refused": head.counts.refused + 1})
    return reissue(head.model_copy(update={"faults": faults, "counts": counts}), item, now)


def bury(head: Head, item: WorkItem, reason: str, evidence: str | None) -> Head:
    """Return the head with the subtask dead: it is not tried again and its epoch goes on."""
    progress = open_progress(head, item)
    grave = DeadSubtask(
        epoch=item.epoch,
        subtask=item.subtask,
        reason=reason,
        evidence=evidence,
        attempts=_attempts(fault_of(head, item)),
        model=progress.model if isinstance(progress, EvaluationProgress) else None,
    )
    head = with_progress(head, item, dead=progress.dead.with_(number_of(item)))
    return _forget(head.model_copy(update={"dead": (*head.dead, grave)}), item)


def drop(head: Head, item: WorkItem) -> Head:
    """Return the head that does not wait for this training subtask any more.

    Raises:
        NotOpen: the epoch is not open, or ``item`` is an evaluation.
    """
    progress = open_progress(head, item)
    if not isinstance(progress, EpochProgress):
        raise NotOpen(f"{item.subtask} is an evaluation: it is never dropped")
    number = number_of(item)
    own = {"dropped": progress.dropped.with_(number), "issued": progress.issued.with_(number)}
    counts = head.counts.model_copy(update={"dropped": head.counts.dropped + 1})
    head = with_progress(head, item, **own).model_copy(update={"counts": counts})
    return _forget(head, item)


def exhume(head: Head, grave: DeadSubtask, now: datetime) -> Head:
    """Return the head with the subtask no longer dead, and all that it did forgiven."""
    fault = Fault(
        epoch=grave.epoch, subtask=grave.subtask, forgiven=grave.attempts, redriven_at=now
    )
    return head.model_copy(
        update={
            "dead": without(head.dead, grave),
            "faults": (*without(head.faults, grave), fault),
        }
    )


def _attempts(fault: Fault) -> tuple[str, ...]:
    return (*fault.forgiven, *fault.refused, *fault.failed)


def _forget(head: Head, item: WorkItem) -> Head:
    """Return the head without what is only kept while a subtask is open."""
    return head.model_copy(
        update={
            "faults": without(head.faults, item),
            "reissued": without(head.reissued, item),
            "speculative": without(head.speculative, item),
            "outbox": without(head.outbox, item),
        }
    )
