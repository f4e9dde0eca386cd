"""Whether a subtask is open: the one question behind every message, result and duplicate.

Messages are hints, the head is the truth. What is not open is dropped without a trace, and that
makes redelivery, duplicate events and speculative copies harmless.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from spotgrad.errors import NotOpen
from spotgrad.protocol.head import Check, Fault, Head, Progress, WorkItem
from spotgrad.protocol.keys import SubtaskName

SomeItem = TypeVar("SomeItem", bound=WorkItem)


def number_of(item: WorkItem) -> int:
    """Return a subtask's number within its epoch: its shard, or 0 for ``initialize``."""
    return SubtaskName.parse(item.subtask).shard or 0


def same(one: WorkItem, other: WorkItem) -> bool:
    """Return whether both are about one subtask of one epoch."""
    return (one.epoch, one.subtask) == (other.epoch, other.subtask)


def plain(item: WorkItem) -> WorkItem:
    """Return which subtask ``item`` is about, and nothing else of it."""
    return WorkItem(epoch=item.epoch, subtask=item.subtask)


def without(rows: Iterable[SomeItem], item: WorkItem) -> tuple[SomeItem, ...]:
    """Return the rows that are about other subtasks than ``item``."""
    return tuple(row for row in rows if not same(row, item))


def fault_of(head: Head, item: WorkItem) -> Fault:
    """Return what counts against an open subtask; nothing, for most."""
    found = (fault for fault in head.faults if same(fault, item))
    return next(found, Fault(epoch=item.epoch, subtask=item.subtask))


def check_of(head: Head, item: WorkItem) -> Check | None:
    """Return the check that has a merged subtask trained again, if there is one."""
    return next((check for check in head.checks if same(check, item)), None)


def progress_of(head: Head, item: WorkItem) -> Progress | None:
    """Return the open epoch or evaluation that the subtask belongs to, if there is one."""
    kind = SubtaskName.parse(item.subtask).kind
    epochs = (*head.epochs, *head.late)
    group: tuple[Progress, ...] = head.evaluations if kind == "evaluate" else epochs
    for progress in group:
        fits = kind == "evaluate" or (kind == "initialize") == (progress.epoch == 0)
        if progress.epoch == item.epoch and fits:
            return progress
    return None


def open_progress(head: Head, item: WorkItem) -> Progress:
    """Return the open epoch or evaluation that the subtask belongs to.

    Raises:
        NotOpen: it is not open.
    """
    progress = progress_of(head, item)
    if progress is None:
        raise NotOpen(f"{item.subtask}: epoch {item.epoch} is not open")
    return progress


def with_progress(head: Head, item: WorkItem, **changes: Any) -> Head:
    """Return the head with the open epoch or evaluation of ``item`` changed."""
    own = open_progress(head, item)
    after = own.model_copy(update=changes)
    groups = {
        group: tuple(after if one is own else one for one in getattr(head, group))
        for group in ("epochs", "late", "evaluations")
    }
    return head.model_copy(update=groups)


def why_not_open(head: Head, run: str, item: WorkItem) -> str | None:
    """Return why nothing more is to be done for this subtask, or None when it is open.

    Raises:
        Malformed: ``item.subtask`` is not the name of a subtask.
    """
    progress = progress_of(head, item)
    if run != head.run:
        return "it belongs to another run"
    if head.ended:
        return f"its job is {head.state}"
    if check_of(head, item) is not None:
        return None  # merged, and trained again to be compared
    return f"epoch {item.epoch} is not open" if progress is None else _why_done(progress, item)


def _why_done(progress: Progress, item: WorkItem) -> str | None:
    number = number_of(item)
    if not progress.issued.has(number):
        return "it was never issued"
    if progress.dead.has(number):
        return "it is dead"
    return "it is already counted" if progress.done.has(number) else None


def open_items(head: Head) -> Iterator[WorkItem]:
    """Yield every subtask that is out: issued, and neither counted nor dead."""
    if head.ended:
        return
    for evaluation in head.evaluations:
        for number in evaluation.issued.minus(evaluation.done).members():
            yield work_item("evaluate", evaluation.epoch, number)
    for progress in (*head.epochs, *head.late):
        for number in progress.issued.minus(progress.done).members():
            yield work_item("train" if progress.epoch else "initialize", progress.epoch, number)


def work_item(kind: str, epoch: int, number: int) -> WorkItem:
    """Return the subtask of this kind and number."""
    if kind == "initialize":
        return WorkItem(epoch=epoch, subtask="initialize")
    return WorkItem(epoch=epoch, subtask=f"{kind}-{number:06d}")
