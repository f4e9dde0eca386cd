"""Reconcile: what events alone would never mend, found from the head and the store.

An outbox whose sender died, a result whose event never came, a subtask that nobody holds, a
straggler, a budget or deadline that is reached, a job that stands still, a wish of the user.
Safe to run twice at once, since what it changes is a commit like any other; on a healthy job it
changes nothing but the receipt of one that has a price.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from spotgrad.planning.budget import cut_short
from spotgrad.planning.fold import already_counted
from spotgrad.planning.leases import recover
from spotgrad.planning.quorum import tend_checks
from spotgrad.planning.rounds import due
from spotgrad.planning.settle import settle
from spotgrad.planning.standing import open_items, progress_of, why_not_open
from spotgrad.planning.stragglers import speculate
from spotgrad.planning.stuck import diagnose
from spotgrad.ports import ObjectInfo, ObjectReader, ObjectSweeper, TaskGauge, WorkerFleet
from spotgrad.protocol.head import EvaluationProgress, Head, WorkItem
from spotgrad.protocol.keys import (
    ACTIVE_PREFIX,
    EXPIRING_PREFIX,
    ActiveKey,
    ExpiringKey,
    ResultKey,
    results_prefix,
)
from spotgrad.steps.aggregate_results import aggregate_results
from spotgrad.steps.commit import commit, send_outbox, until_committed
from spotgrad.steps.control_job import control_job
from spotgrad.steps.documents import TaggedHead, find_head, keyed
from spotgrad.steps.expire_results import expire_results, has_results
from spotgrad.steps.expire_versions import expire_versions
from spotgrad.steps.observe import observe
from spotgrad.steps.receipt import renew_receipt
from spotgrad.steps.succession import successor
from spotgrad.steps.sweep_orphans import GRACE, sweep_orphans
from spotgrad.steps.world import World


@dataclass(frozen=True)
class Watch:
    """What reconcile needs beside the world: to delete, queue depth, the lease, the fleets."""

    sweeper: ObjectSweeper
    gauge: TaskGauge
    lease_seconds: int
    fleets: Sequence[WorkerFleet] = ()

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


def expiring_jobs(store: ObjectReader, now: datetime) -> list[str]:
    """Return, once a day, the ended jobs whose results have not all expired yet."""
    if now.hour or not on_the_hour(now):
        return []
    return [key.job for _, key in keyed(store, EXPIRING_PREFIX, ExpiringKey)]


def on_the_hour(now: datetime) -> bool:
    """Return whether it is time for what need not be done every minute."""
    return now.minute == 0


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
        done = _put_away(world, watch, present.head)
        control_job(world, job)  # a redrive may revive it
        return done
    if world.clock.now() - present.head.updated_at > watch.lease:
        present = send_outbox(world, present)
    missed = list(_missed_results(world, watch, present.head))
    if missed:
        aggregate_results(world, job, missed)
    recovery = _Recovery(world, watch, job)
    until_committed(recovery.mend, job)
    if _round_is_over(world, job):
        aggregate_results(world, job, ())
    swept = _tidy(world, watch, present.head) if on_the_hour(world.clock.now()) else 0
    wish = control_job(world, job)
    reissued = recovery.reissued + wish.reissued
    return Reconciled(results_found=len(missed), reissued=reissued, swept=swept)


def _put_away(world: World, watch: Watch, head: Head) -> Reconciled:
    """Let an ended job go, an hour later: then no function of it can still be writing."""
    _spent_usd(world, watch, head)
    if world.clock.now() - head.updated_at <= GRACE:
        return Reconciled(ended=True)
    swept = _tidy(world, watch, head)
    mark = ExpiringKey(head.job).render()
    if has_results(world.store, head.job):
        world.store.put(mark, b"")
    else:
        watch.sweeper.delete(mark)
    watch.sweeper.delete(ActiveKey(head.job).render())
    return Reconciled(ended=True, swept=swept)


def _tidy(world: World, watch: Watch, head: Head) -> int:
    """Delete what lost commits left behind and what has expired; return how many objects."""
    now = world.clock.now()
    keep, store = world.plans.read(head).spec.keep, watch.sweeper
    gone = sweep_orphans(store, head, now) + expire_results(store, head, keep.results_days, now)
    if keep.versions != "all":
        gone += expire_versions(store, world.attempts, head, keep.versions, now)
    return gone


def _spent_usd(world: World, watch: Watch, head: Head) -> float | None:
    """Return what the job has cost up to now, and keep its receipt; None without a price."""
    receipt = renew_receipt(world, head, lease_seconds=watch.lease_seconds)
    return None if receipt is None else receipt.usd


def _missed_results(world: World, watch: Watch, head: Head) -> Iterator[ResultKey]:
    """Yield open subtasks' results that lie there for over a lease: their event never came."""
    for epoch in sorted({item.epoch for item in (*open_items(head), *head.checks)}):
        for info, key in keyed(world.store, results_prefix(head.job, epoch), ResultKey):
            item = WorkItem(epoch=key.epoch, subtask=key.subtask)
            if (
                world.clock.now() - info.modified_at > watch.lease
                and not _of_earlier_evaluation(head, item, info)
                and why_not_open(head, head.run, item) is None
                and not already_counted(head, item, key.attempt)
            ):
                yield key


def _of_earlier_evaluation(head: Head, item: WorkItem, info: ObjectInfo) -> bool:
    progress = progress_of(head, item)
    begun = progress.begun_at if isinstance(progress, EvaluationProgress) else None
    return begun is not None and info.modified_at < begun


def _round_is_over(world: World, job: str) -> bool:
    """Return whether a synchronous round waits for nobody any more, and no result will say so."""
    present = find_head(world.store, job)
    if present is None:
        return False
    return due(present.head, world.plans.read(present.head), world.clock.now()) is not None


class _Recovery:
    """Changes the head, under the commit protocol."""

    def __init__(self, world: World, watch: Watch, job: str) -> None:
        self._world = world
        self._watch = watch
        self._job = job
        self.reissued = 0

    def mend(self) -> bool:
        """End what is over its budget, send what is lost or slow; return whether it is through."""
        return self._commit(self._mended)

    def _commit(self, change: Callable[[Head], Head]) -> bool:
        present = find_head(self._world.store, self._job)
        if present is None or present.head.ended:
            return True
        after = change(present.head)
        return after == present.head or self._apply(present, after)

    def _mended(self, head: Head) -> Head:
        plan, now = self._world.plans.read(head), self._world.clock.now()
        after = cut_short(head, plan, None, now)
        if after.ended or after.state == "PAUSED":
            return after
        watch = self._watch
        sky = observe(self._world, watch.gauge, watch.lease_seconds, head, watch.fleets)
        after = cut_short(head, plan, _spent_usd(self._world, self._watch, head), now)
        if after.ended:
            return after
        recovered = recover(after, plan, sky)
        if recovered != after:
            recovered = settle(recovered, plan, sky.now)
        return diagnose(speculate(tend_checks(recovered, sky), sky), sky)

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
