"""Which open subtasks are lost: the rules by which ``reconcile`` sends one again, or gives it up.

Ages come from the store's modification times, never from a worker's clock. Nothing here is needed
on a healthy job: SQS brings back what a vanished worker held; this catches what SQS lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from spotgrad.planning.fleet import FleetView
from spotgrad.planning.fold import bury, reissue
from spotgrad.planning.standing import fault_of, open_items, open_progress, same
from spotgrad.protocol.attempt import AttemptOutcome
from spotgrad.protocol.head import Head, WorkItem
from spotgrad.protocol.plan import JobPlan

LONGEST_WAIT = timedelta(hours=1)
"""A subtask that nobody began may wait this long in a queue that is not empty."""

GAVE_BACK: frozenset[AttemptOutcome] = frozenset({"returned", "lease-lost"})
"""Ends of an attempt after which the message is in the queue, or in somebody else's hands."""


@dataclass(frozen=True)
class Sighting:
    """One attempt record: when the store last saw it, how it ended, if it did, how long it took.

    ``lasted`` is a difference of its worker's clock, ``seen_at`` the store's: so is ``began_at``.
    """

    seen_at: datetime
    outcome: AttemptOutcome | None
    lasted: timedelta = timedelta(0)

    @property
    def began_at(self) -> datetime:
        """Return when the attempt began, by the store's clock."""
        return self.seen_at - self.lasted


@dataclass(frozen=True)
class Sky:
    """What ``reconcile`` looked at: attempts by subtask, the queue, the time, the fleet."""

    sightings: Mapping[tuple[int, str], Sequence[Sighting]]
    durations_seconds: Sequence[float]
    queue_depth: int
    lease_seconds: int
    now: datetime
    fleet: FleetView | None = None
    """How the workers' machines stand; looked at only where nobody works on the job."""

    @property
    def two_leases(self) -> timedelta:
        """Return the silence after which a beating attempt is given up."""
        return timedelta(seconds=2 * self.lease_seconds)

    @property
    def typical_seconds(self) -> float:
        """Return how long a training subtask takes; 0 while none has ended."""
        return median(self.durations_seconds) if self.durations_seconds else 0.0

    @property
    def longest_wait(self) -> timedelta:
        """Return how long an unbegun subtask may wait in a queue that is not empty."""
        return max(LONGEST_WAIT, timedelta(seconds=10 * self.typical_seconds))

    def of(self, item: WorkItem) -> Sequence[Sighting]:
        """Return the attempts at this subtask."""
        return self.sightings.get((item.epoch, item.subtask), ())

    def is_alive(self, one: Sighting) -> bool:
        """Return whether the attempt has not ended and beat within two leases."""
        return one.outcome is None and self.now - one.seen_at <= self.two_leases

    def alive(self, item: WorkItem) -> list[Sighting]:
        """Return the attempts at this subtask that somebody is making now."""
        return [one for one in self.of(item) if self.is_alive(one)]

    def vanished(self, item: WorkItem, since: datetime | None = None) -> int:
        """Return how many attempts at this subtask, of those after ``since``, fell silent."""
        silent = (one for one in self.of(item) if one.outcome is None and not self.is_alive(one))
        return sum(since is None or one.seen_at > since for one in silent)


def recover(head: Head, plan: JobPlan, sky: Sky) -> Head:
    """Return the head with every lost subtask sent again, or dead after too many interruptions."""
    for item in list(open_items(head)):
        interruptions = sky.vanished(item, since=fault_of(head, item).redriven_at)
        if interruptions > plan.spec.retries.interruptions:
            head = bury(head, item, f"interrupted {interruptions} times", None)
        elif is_lost(head, item, sky):
            head = reissue(head, item, sky.now)
    return head


def resume_all(head: Head, now: datetime) -> Head:
    """Return the head with every open subtask in the outbox again (messages live 14 days)."""
    for item in list(open_items(head)):
        head = reissue(head, item, now)
    return head


def is_lost(head: Head, item: WorkItem, sky: Sky) -> bool:
    """Return whether nobody holds this open subtask any more, nor will receive it.

    Only attempts seen since the subtask was last sent again count: an older one explains nothing
    about the message that is out now, and would have it sent again every two leases.
    """
    sent_again = next((one.at for one in head.reissued if same(one, item)), None)
    since = [one for one in sky.of(item) if sent_again is None or one.seen_at > sent_again]
    latest = max(since, key=lambda sighting: sighting.seen_at, default=None)
    if latest is not None and latest.outcome not in GAVE_BACK:
        return sky.now - latest.seen_at > sky.two_leases
    sent_at = sent_again or open_progress(head, item).issued_at
    waited = sky.now - (latest.seen_at if latest else sent_at)
    if waited > sky.longest_wait:
        return True
    return sky.queue_depth == 0 and waited > timedelta(seconds=sky.lease_seconds)
