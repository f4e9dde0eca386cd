"""Stragglers: open training subtasks that take far longer than others did, sent out a second time.

Not lost ones: somebody still works at a straggler. The first result wins, the commit protocol
drops the other, so a copy costs work and never correctness. Invariant: at most one copy of a
subtask, few at once, and only where an epoch waits for its last subtasks.
"""

from datetime import datetime, timedelta
from typing import Final

from spotgrad.planning.leases import Sky
from spotgrad.planning.standing import same, work_item
from spotgrad.protocol.head import EpochProgress, Head, WorkItem

SLOWNESS: Final = 2.5
"""How many times the median a subtask may take before it is a straggler."""
LEAST_FINISHED: Final = 5
"""A median of fewer finished attempts says nothing."""
TAIL_SHARE: Final = 0.75
"""An epoch is at its tail when so much of it is done, or all of it is out."""
COPIES_SHARE: Final = 0.1
"""At most so many of an epoch's subtasks are out twice at once; one always may be."""


def speculate(head: Head, sky: Sky) -> Head:
    """Return the head with a second copy of the slowest stragglers in its outbox."""
    if head.ended or head.state == "PAUSED" or len(sky.durations_seconds) < LEAST_FINISHED:
        return head
    for progress in head.epochs:
        if progress.epoch and _at_tail(progress):
            for item in _stragglers(head, progress, sky)[: _room(head, progress)]:
                head = _copied(head, item)
    return head


def _at_tail(progress: EpochProgress) -> bool:
    done = progress.done.count >= TAIL_SHARE * progress.subtasks
    return done or progress.issued.count == progress.subtasks


def _room(head: Head, progress: EpochProgress) -> int:
    out = sum(item.epoch == progress.epoch for item in head.speculative)
    return max(0, max(1, int(COPIES_SHARE * progress.subtasks)) - out)


def _stragglers(head: Head, progress: EpochProgress, sky: Sky) -> list[WorkItem]:
    """Return this epoch's stragglers without a copy, the slowest first.

    A lease is waited at least: below that, starting takes longer than the subtask itself.
    """
    patience = timedelta(seconds=max(SLOWNESS * sky.typical_seconds, sky.lease_seconds))
    found: list[tuple[datetime, WorkItem]] = []
    for number in progress.issued.minus(progress.done).members():
        item = work_item("train", progress.epoch, number)
        began = [one.began_at for one in sky.alive(item)]
        copied = len(began) > 1 or any(same(one, item) for one in head.speculative)
        if began and not copied and sky.now - began[0] > patience:
            found.append((began[0], item))
    return [item for _, item in sorted(found, key=lambda row: (row[0], row[1].subtask))]


def _copied(head: Head, item: WorkItem) -> Head:
    counts = {
        "reissued": head.counts.reissued + 1,
        "speculative": head.counts.speculative + 1,
    }
    return head.model_copy(
        update={
            "outbox": (*head.outbox, item),
            "speculative": (*head.speculative, item),
            "counts": head.counts.model_copy(update=counts),
        }
    )
