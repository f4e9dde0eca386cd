"""Reconcile: what events alone would never mend, found from the head and the store.

An outbox whose sender died, a result whose event never came, a subtask that nobody holds, a wish
to resume. Safe to run twice at once, since what it changes is a commit like any other; on a healthy
job it changes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from spotgrad.planning.fold import already_counted
from spotgrad.planning.leases import Sighting, Sky, recover, resume_all
from spotgrad.planning.settle import settle
from spotgrad.planning.standing import open_items, why_not_open
from spotgrad.ports import ObjectInfo, ObjectSweeper, TaskGauge
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
from spotgrad.steps.documents import TaggedHead, find_document, find_head, read_plan
from spotgrad.steps.succession import successor
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


def active_jobs(store: ObjectSweeper) -> list[str]:
    """Return the jobs that are marked as live."""
    return [ActiveKey.parse(info.key).job for info in store.list(ACTIVE_PREFIX)]


def reconcile_job(world: World, watch: Watch, job: str) -> Reconciled:
    """Mend one job; raises ``Retry`` when a store failed: the next minute tries again."""
    present = find_head(world.store, job)
    if present is None:
        return Reconciled()
    if present.head.ended:
        watch.sweeper.delete(ActiveKey(job).render())
        return Reconciled(ended=True)
    if world.clock.now() - present.head.updated_at > watch.lease:
        present = send_outbox(world, present)
    missed = list(_missed_results(world, watch, present.head))
    if missed:
        aggregate_results(world, job, missed)
    recovery = _Recovery(world, watch, job)
    until_committed(recovery.attempt, job)
    return Reconciled(results_found=len(missed), reissued=recovery.reissued)


def _missed_results(world: World, watch: Watch, head: Head) -> Iterator[ResultKey]:
    """Yield open subtasks' results that lie there for over a lease: their event never came."""
    epochs = {progress.epoch for progress in (*head.epochs, *head.evaluations)}
    for epoch in sorted(epochs):
        for info in world.store.list(results_prefix(head.job, epoch)):
            key = ResultKey.parse(info.key)
            item = WorkItem(epoch=key.epoch, subtask=key.subtask)
            waited = world.clock.now() - info.modified_at
            if (
                waited > watch.lease
                and why_not_open(head, head.run, item) is None
                and not already_counted(head, item, key.attempt)
            ):
                yield key


class _Recovery:
    """Sends lost subtasks again, under the commit protocol."""

    def __init__(self, world: World, watch: Watch, job: str) -> None:
        self._world = world
        self._watch = watch
        self._job = job
        self.reissued = 0

    def attempt(self) -> bool:
        present = find_head(self._world.store, self._job)
        if present is None or present.head.ended:
            return True
        after = self._wished(self._recovered(present.head))
        if after == present.head:
            return True
        return self._apply(present, after)

    def _recovered(self, head: Head) -> Head:
        if head.state == "PAUSED":
            return head
        plan = read_plan(self._world.store, self._job)
        sky = _look(self._world, self._watch, head)
        after = recover(head, plan, sky)
        return head if after == head else settle(after, plan, sky.now)

    def _wished(self, head: Head) -> Head:
        """Issue every open subtask anew when the user asks for it with a new token."""
        control = find_document(self._world.store, ControlKey(self._job).render(), Control)
        if control is None or control.resume in (None, head.resume_token):
            return head
        head = resume_all(head, self._world.clock.now())
        return head.model_copy(update={"resume_token": control.resume})

    def _apply(self, present: TaggedHead, after: Head) -> bool:
        now = self._world.clock.now()
        dead = after.dead[len(present.head.dead) :]
        made = successor(present.head, after, commit=self._world.new_id(), now=now, dead=dead)
        etag = commit(self._world.store, made, only_if=present.etag)
        if etag is None:
            return False
        send_outbox(self._world, TaggedHead(made.head, etag))
        self.reissued = after.counts.reissued - present.head.counts.reissued
        return True


def _look(world: World, watch: Watch, head: Head) -> Sky:
    """Read the attempts of the open epochs, and how deep the queue is."""
    open_now = {(item.epoch, item.subtask) for item in open_items(head)}
    epochs = sorted({epoch for epoch, _ in open_now})
    infos = [
        info for epoch in epochs for info in world.store.list(attempts_prefix(head.job, epoch))
    ]
    sightings: dict[tuple[int, str], list[Sighting]] = {}
    for info in infos:
        key = AttemptKey.parse(info.key)
        if (key.epoch, key.subtask) in open_now:
            sighting = Sighting(info.modified_at, _read(world, info).outcome)
            sightings.setdefault((key.epoch, key.subtask), []).append(sighting)
    return Sky(
        sightings=sightings,
        durations_seconds=_durations(world, infos, open_now),
        queue_depth=watch.gauge.depth(),
        lease_seconds=watch.lease_seconds,
        now=world.clock.now(),
    )


def _durations(
    world: World, infos: list[ObjectInfo], open_now: set[tuple[int, str]]
) -> list[float]:
    """Return how long some finished subtasks took, by their own workers' clocks."""
    finished = []
    for info in infos:
        key = AttemptKey.parse(info.key)
        if (key.epoch, key.subtask) not in open_now:
            finished.append(info)
    attempts = [_read(world, info) for info in finished[:DURATIONS_READ]]
    return [(one.beat_at - one.started_at).total_seconds() for one in attempts]


def _read(world: World, info: ObjectInfo) -> Attempt:
    return Attempt.from_json(world.store.get(info.key).body)
