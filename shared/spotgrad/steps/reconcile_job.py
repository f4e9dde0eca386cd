"""Reconcile: what events alone would never mend, found from the head and the store.

An outbox whose sender died, a result whose event never came, a subtask that nobody holds, a wish
to resume. Safe to run twice at once, since what it changes is a commit like any other; on a healthy
job it changes nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from spotgrad.errors import Malformed
from spotgrad.planning.fold import already_counted
from spotgrad.planning.leases import Sighting, Sky, recover, resume_all
from spotgrad.planning.settle import settle
from spotgrad.planning.standing import open_items, why_not_open
from spotgrad.ports import ObjectInfo, ObjectReader, ObjectSweeper, TaskGauge
from spotgrad.protocol.attempt import Attempt
from spotgrad.protocol.control import Control
from spotgrad.protocol.head import Head, WorkItem
from spotgrad.protocol.keys import (
    ACTIVE_PREFIX,
    ActiveKey,
    AttemptKey,
    ControlKey,
    ResultKey,
    attempts_prefix,
    results_prefix,
)
from spotgrad.steps.aggregate_results import aggregate_results
from spotgrad.steps.commit import commit, send_outbox, until_committed
from spotgrad.steps.documents import TaggedHead, find_document, find_head, keyed
from spotgrad.steps.succession import successor
from spotgrad.steps.sweep_orphans import GRACE, sweep_orphans
from spotgrad.steps.world import World

DURATIONS_READ = 20
"""How many finished attempts are read to learn how long a subtask takes."""


@dataclass(frozen=True)
class Watch:
    """What reconcile needs beside the world: the right to delete, the queue's depth, the lease."""

    sweeper: ObjectSweeper
    gauge: TaskGauge
    lease_seconds: int

    @property
    def lease(self) -> timedelta:
        """Return the lease: what happened within it may still be in somebody's hands."""
        return timedelta(seconds=self.lease_seconds)


@dataclass(frozen=True)
class Reconciled:
    """What was mended, for logs: nothing, on a healthy job."""

    results_found: int = 0
    reissued: int = 0
    ended: bool = False
    swept: int = 0


def active_jobs(store: ObjectReader) -> list[str]:
    """Return the jobs that are marked as live."""
    return [key.job for _, key in keyed(store, ACTIVE_PREFIX, ActiveKey)]


def reconcile_job(world: World, watch: Watch, job: str) -> Reconciled:
    """Mend one job.

    Raises:
        Retry: a store failed; the next minute tries again.
        Malformed: the user's control file is damaged; all else has been mended before.
    """
    present = find_head(world.store, job)
    if present is None:
        return Reconciled()
    if present.head.ended:
        return _put_away(world, watch, present.head)
    if world.clock.now() - present.head.updated_at > watch.lease:
        present = send_outbox(world, present)
    missed = list(_missed_results(world, watch, present.head))
    if missed:
        aggregate_results(world, job, missed)
    recovery = _Recovery(world, watch, job)
    until_committed(recovery.send_lost, job)
    until_committed(recovery.resume, job)
    return Reconciled(results_found=len(missed), reissued=recovery.reissued)


def _put_away(world: World, watch: Watch, head: Head) -> Reconciled:
    """Let an ended job go, an hour later: then no function of it can still be writing."""
    now = world.clock.now()
    if now - head.updated_at <= GRACE:
        return Reconciled(ended=True)
    swept = sweep_orphans(watch.sweeper, head, now)
    watch.sweeper.delete(ActiveKey(head.job).render())
    return Reconciled(ended=True, swept=swept)


def _missed_results(world: World, watch: Watch, head: Head) -> Iterator[ResultKey]:
    """Yield open subtasks' results that lie there for over a lease: their event never came."""
    for epoch in sorted({item.epoch for item in open_items(head)}):
        for info, key in keyed(world.store, results_prefix(head.job, epoch), ResultKey):
            item = WorkItem(epoch=key.epoch, subtask=key.subtask)
            if (
                world.clock.now() - info.modified_at > watch.lease
                and why_not_open(head, head.run, item) is None
                and not already_counted(head, item, key.attempt)
            ):
                yield key


class _Recovery:
    """Sends subtasks again, under the commit protocol."""

    def __init__(self, world: World, watch: Watch, job: str) -> None:
        self._world = world
        self._watch = watch
        self._job = job
        self.reissued = 0

    def send_lost(self) -> bool:
        """Send what nobody holds any more; return whether it is through."""
        return self._commit(self._recovered)

    def resume(self) -> bool:
        """Send all that is open when the user asks for it with a new token."""
        return self._commit(self._wished)

    def _commit(self, change: Callable[[Head], Head]) -> bool:
        present = find_head(self._world.store, self._job)
        if present is None or present.head.ended:
            return True
        after = change(present.head)
        return after == present.head or self._apply(present, after)

    def _recovered(self, head: Head) -> Head:
        if head.state == "PAUSED":
            return head
        plan = self._world.plans.read(head)
        sky = _look(self._world, self._watch, head)
        after = recover(head, plan, sky)
        return head if after == head else settle(after, plan, sky.now)

    def _wished(self, head: Head) -> Head:
        control = find_document(self._world.store, ControlKey(self._job).render(), Control)
        if control is None or control.resume in (None, head.resume_token):
            return head
        head = resume_all(head, self._world.clock.now())
        return head.model_copy(update={"resume_token": control.resume})

    def _apply(self, present: TaggedHead, after: Head) -> bool:
        made = successor(
            present.head, after, commit=self._world.new_id(), now=self._world.clock.now()
        )
        etag = commit(self._world.store, made, only_if=present.etag)
        if etag is None:
            return False
        send_outbox(self._world, TaggedHead(made.head, etag))
        self.reissued += after.counts.reissued - present.head.counts.reissued
        return True


def _look(world: World, watch: Watch, head: Head) -> Sky:
    """Read the attempts of the open epochs, and how deep the queue is."""
    open_now = {(item.epoch, item.subtask) for item in open_items(head)}
    sightings: dict[tuple[int, str], list[Sighting]] = {}
    finished = []
    for epoch in sorted({epoch for epoch, _ in open_now}):
        for info, key in keyed(world.store, attempts_prefix(head.job, epoch), AttemptKey):
            subtask = (key.epoch, key.subtask)
            if subtask not in open_now:
                finished.append(info)
                continue
            attempt = _read(world, info)
            if attempt is not None and attempt.run == head.run:
                sighting = Sighting(info.modified_at, attempt.outcome)
                sightings.setdefault(subtask, []).append(sighting)
    return Sky(
        sightings=sightings,
        durations_seconds=_durations(world, finished[:DURATIONS_READ]),
        queue_depth=watch.gauge.depth(),
        lease_seconds=watch.lease_seconds,
        now=world.clock.now(),
    )


def _durations(world: World, finished: list[ObjectInfo]) -> list[float]:
    """Return how long some finished subtasks took, by their own workers' clocks."""
    attempts = [_read(world, info) for info in finished]
    return [(one.beat_at - one.started_at).total_seconds() for one in attempts if one is not None]


def _read(world: World, info: ObjectInfo) -> Attempt | None:
    """Return the attempt record, or None when it is damaged: then it is no sign of life."""
    with suppress(Malformed):
        return Attempt.from_json(world.store.get(info.key).body)
    return None
