"""Which subtasks go out now: at most ``max_in_flight``; evaluations, redriven ones, the epochs.

``barrier`` issues the oldest open epoch alone (the paper); ``rolling`` also issues shard s of a
later open epoch as soon as shard s of the epoch before it is done, so no worker idles at the tail.
Where gradients add up to large batches, no more than the step at hand needs goes out.
"""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from spotgrad.planning.large_batch import within_step
from spotgrad.planning.order import shard_order
from spotgrad.planning.standing import (
    fault_of,
    number_of,
    open_progress,
    with_progress,
    without,
    work_item,
)
from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.head import EpochProgress, Head, Progress, Reissue, WorkItem
from spotgrad.protocol.plan import JobPlan


def outstanding(head: Head) -> int:
    """Return how many subtasks are out."""
    groups: tuple[Progress, ...] = (*head.evaluations, *head.late, *head.epochs)
    return sum(group.issued.count - group.done.count for group in groups)


def issue_next(head: Head, plan: JobPlan, now: datetime) -> Head:
    """Return the head with every subtask that may go out now issued and in its outbox."""
    if head.ended or head.state == "PAUSED":
        return head
    room = max(0, plan.spec.schedule.max_in_flight - outstanding(head))
    for item in list(islice(within_step(head, plan, _candidates(head, plan)), room)):
        head = _issued(head, item, now)
    return head


def _issued(head: Head, item: WorkItem, now: datetime) -> Head:
    progress = open_progress(head, item)
    issued = progress.issued.with_(number_of(item))
    head = with_progress(head, item, issued=issued, issued_at=now)
    if fault_of(head, item).redriven_at is not None:
        # Attempts at it from before it died say nothing about the message that goes out now.
        note = Reissue(epoch=item.epoch, subtask=item.subtask, at=now)
        head = head.model_copy(update={"reissued": (*without(head.reissued, item), note)})
    return head.model_copy(update={"outbox": (*head.outbox, item)})


def _candidates(head: Head, plan: JobPlan) -> Iterator[WorkItem]:
    for evaluation in head.evaluations:
        for number in range(evaluation.subtasks):
            if not evaluation.issued.has(number):
                yield work_item("evaluate", evaluation.epoch, number)
    for progress in head.late:
        yield from _of_epoch(progress, plan.spec.seed, None)
    ready: Bitmap | None = None
    for progress in head.epochs:
        yield from _of_epoch(progress, plan.spec.seed, ready)
        ready = progress.done
        if plan.spec.schedule.issue == "barrier":
            return


def _of_epoch(progress: EpochProgress, seed: int, ready: Bitmap | None) -> Iterator[WorkItem]:
    """Yield the epoch's unissued subtasks in seeded order, those in ``ready`` where it is given."""
    kind = "train" if progress.epoch else "initialize"
    for number in shard_order(seed, progress.epoch, progress.subtasks):
        if not progress.issued.has(number) and (ready is None or ready.has(number)):
            yield work_item(kind, progress.epoch, number)
