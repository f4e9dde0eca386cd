"""Which open subtasks are lost: the rules by which ``reconcile`` sends one again.

Ages come from the store's modification times, never from a worker's clock. Nothing here is needed
on a healthy job: SQS brings back what a vanished worker held; this catches what SQS lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from spotgrad.planning.fold import bury, reissue
from spotgrad.planning.standing import open_items, progress_of
from spotgrad.protocol.attempt import AttemptOutcome
from spotgrad.protocol.head import Head, Reissue, WorkItem
from spotgrad.protocol.plan import JobPlan

LONGEST_WAIT = timedelta(hours=1)
"""A subtask that nobody began may wait this long in a queue that is not empty."""


@dataclass(frozen=True)
class Sighting:
    """One attempt record: when the store last saw it, and how it ended, if it did."""

    seen_at: datetime
    outcome: AttemptOutcome | None


@dataclass(frozen=True)
class Sky:
    """What ``reconcile`` looked at: attempts by subtask, the queue, the time."""

    sightings: Mapping[tuple[int, str], Sequence[Sighting]]
    durations_seconds: Sequence[float]
    queue_depth: int
    lease_seconds: int
    now: datetime

    @property
    def two_leases(self) -> timedelta:
        """Return the silence after which a beating attempt is given up."""
        return timedelta(seconds=2 * self.lease_seconds)

    @property
    def longest_wait(self) -> timedelta:
        """Return how long an unbegun subtask may wait in a queue that is not empty."""
        typical = median(self.durations_seconds) if self.durations_seconds else 0.0
        return max(LONGEST_WAIT, timedelta(seconds=10 * typical))


def recover(head: Head, plan: JobPlan, sky: Sky) -> Head:
    """Return the head with every lost subtask sent again, or dead after too many interruptions."""
    for item in list(open_items(head)):
        if is_lost(head, item, sky):
            head = _recovered(head, plan, item, sky)
    return head


def resume_all(head: Head, now: datetime) -> Head:
    """Return the head with every open subtask in the outbox again (messages live 14 days)."""
    for item in list(open_items(head)):
        head = _noted(reissue(head, item), item, now)
    return head


def is_lost(head: Head, item: WorkItem, sky: Sky) -> bool:
    """Return whether nobody holds this open subtask any more, nor will receive it."""
    seen = sky.sightings.get((item.epoch, item.subtask), ())
    latest = max(seen, key=lambda sighting: sighting.seen_at, default=None)
    silence = sky.now - max(
        _sent_at(head, item), latest.seen_at if latest else _sent_at(head, item)
    )
    if latest is not None and latest.outcome in (None, "uploaded", "failed"):
        return silence > sky.two_leases
    if silence > sky.longest_wait:
        return True
    return sky.queue_depth == 0 and silence > timedelta(seconds=sky.lease_seconds)


def _sent_at(head: Head, item: WorkItem) -> datetime:
    again = [one.at for one in head.reissued if _same(one, item)]
    progress = progress_of(head, item)
    return max([*again, progress.issued_at if progress else head.started_at])


def _recovered(head: Head, plan: JobPlan, item: WorkItem, sky: Sky) -> Head:
    seen = sky.sightings.get((item.epoch, item.subtask), ())
    lost = sum(one.outcome is None and sky.now - one.seen_at > sky.two_leases for one in seen)
    if lost > plan.spec.retries.interruptions:
        return bury(head, item, f"interrupted {lost} times", None)
    return _noted(reissue(head, item), item, sky.now)


def _noted(head: Head, item: WorkItem, now: datetime) -> Head:
    others = tuple(one for one in head.reissued if not _same(one, item))
    note = Reissue(epoch=item.epoch, subtask=item.subtask, at=now)
    return head.model_copy(update={"reissued": (*others, note)})


def _same(one: WorkItem, other: WorkItem) -> bool:
    return (one.epoch, one.subtask) == (other.epoch, other.subtask)
