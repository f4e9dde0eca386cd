"""Synchronous rounds: when one closes, and what becomes of those that it does not wait for.

A round is an epoch of a rule that merges all at once. It is over when every subtask is merged or
dead, or, past its deadline, when the quorum is merged. Not how it is merged (``merging``): a step
closes it, since that makes a version, and until then ``settle`` keeps its epoch open. Invariant:
what was collected enters a version before its epoch closes, and before the job comes to a good end.
"""

from datetime import datetime

from spotgrad.planning.fold import drop
from spotgrad.planning.standing import fault_of, work_item
from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.head import EpochProgress, Head, WorkItem
from spotgrad.protocol.merge import Synchronous
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.recipe import WINDOW, Closing


def due(head: Head, plan: JobPlan, now: datetime, results: int = 0) -> Closing | None:
    """Return what is to be closed now; None where there is nothing to merge, or more to wait for.

    ``results`` are those that the head counts already and its objects do not hold yet.
    """
    merge = plan.spec.merge
    if not isinstance(merge, Synchronous) or head.ended:
        return None
    if not results and not head.tally.get(WINDOW):
        return None
    if head.epochs:
        return "round" if _is_over(head, merge, now) else None
    return "rest" if all(one.complete for one in head.late) else None


def _is_over(head: Head, merge: Synchronous, now: datetime) -> bool:
    current, waits = head.epochs[0], merge.waits
    if current.complete:
        return True
    if head.state == "PAUSED" or waits is None or now - (current.begun_at or now) < waits:
        return False
    return current.merged.count >= round(merge.enough * current.subtasks, 6)


def leave_behind(head: Head, plan: JobPlan) -> tuple[Head, tuple[WorkItem, ...]]:
    """Return the head whose round waits for nobody any more, and the subtasks that it dropped.

    Under ``late: merge`` those that are out move to ``head.late``. Nothing that could take them
    along follows the last round, so that it drops earlier stragglers too; what was redriven stays.
    """
    if not head.epochs:
        return head, ()
    current = head.epochs[0]
    missing = Bitmap.of(range(current.subtasks)).minus(current.done)
    last = current.epoch == plan.spec.epochs
    stays = isinstance(plan.spec.merge, Synchronous) and plan.spec.merge.late == "merge"
    stay = missing.minus(_never_out(current)) if stays and not last else Bitmap()
    dropped = [
        work_item("train", current.epoch, number) for number in missing.minus(stay).members()
    ]
    if last:
        dropped += _earlier_stragglers(head)
    for item in dropped:
        head = drop(head, item)
    return _moved(head, stay), tuple(dropped)


def _never_out(current: EpochProgress) -> Bitmap:
    return Bitmap.of(range(current.subtasks)).minus(current.issued)


def _earlier_stragglers(head: Head) -> list[WorkItem]:
    items = [
        work_item("train", one.epoch, number)
        for one in head.late
        for number in range(one.subtasks)
        if not one.done.has(number)
    ]
    return [item for item in items if fault_of(head, item).redriven_at is None]


def _moved(head: Head, stay: Bitmap) -> Head:
    """Return the head with these subtasks of the current epoch among the late ones."""
    if not stay.count:
        return head
    current = head.epochs[0]
    # Where the epoch itself is concerned they are dropped, so that it closes.
    closing = current.model_copy(update={"dropped": current.dropped.union(stay)})
    return head.model_copy(
        update={"epochs": (closing, *head.epochs[1:]), "late": (*head.late, current)}
    )
