"""Tend the fleets: start the workers that the live jobs' open subtasks need and that are not there.

A job's workers are started in the first fleet that serves it, and counted there alone.

``plan`` and ``reconcile`` both do, and may at once: what one is about to start it notes first,
under a condition, so the other counts it. Whoever dies in between is made good a minute later.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from spotgrad.errors import ConditionFailed, Malformed, NotFound, SpotgradError
from spotgrad.planning.fleet import Start, news_of, next_start, workers_for
from spotgrad.planning.offer import serving
from spotgrad.ports import ABSENT, Absent, ObjectStore, WorkerFleet
from spotgrad.protocol.head import Head
from spotgrad.protocol.job import Workers
from spotgrad.protocol.keys import ACTIVE_PREFIX, ActiveKey, FleetKey
from spotgrad.protocol.muster import Muster
from spotgrad.steps.documents import find_head, keyed
from spotgrad.steps.world import World

ATTEMPTS: Final = 3
"""Each loss means that somebody else has started workers; the next minute looks again anyway."""


@dataclass(frozen=True)
class Tended:
    """What became of the fleets together, for logs and metrics."""

    wanted: int = 0
    alive: int = 0
    started: int = 0

    def __add__(self, other: "Tended") -> "Tended":
        """Return both together."""
        return Tended(
            self.wanted + other.wanted, self.alive + other.alive, self.started + other.started
        )


class _Job(NamedTuple):
    """A live job: what it asks of its workers, and for how many it has work."""

    head: Head
    asks: Workers
    workers: int


def tend_fleet(world: World, fleets: Sequence[WorkerFleet]) -> Tended:
    """Start what is missing for all live jobs; a fleet without work is not even asked.

    Raises:
        Retry: the store or a fleet failed; some workers may have been started.
        Reject: a fleet does not exist, or may not be used: a person has to act. The other fleets
            have been tended.
    """
    jobs = list(_live_jobs(world))
    offers = [fleet.offer for fleet in fleets]
    tended = Tended()
    failed: SpotgradError | None = None
    for index, fleet in enumerate(fleets):
        served = [job for job in jobs if serving(offers, job.asks) == index]
        try:
            tended += _tend_one(world, fleet, served)
        except SpotgradError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return tended


def _tend_one(world: World, fleet: WorkerFleet, jobs: Sequence[_Job]) -> Tended:
    wanted = sum(job.workers for job in jobs)
    if wanted == 0:
        return Tended()
    key, news = FleetKey(fleet.offer.name).render(), news_of(job.head for job in jobs)
    alive = fleet.look().alive
    for _ in range(ATTEMPTS):
        last, only_if = _read(world.store, key)
        start = next_start(wanted, alive, last, news, world.clock.now())
        if start is None:
            break
        if _note(world.store, key, start, only_if):
            fleet.start(start.more)
            return Tended(wanted, alive, start.more)
        alive = fleet.look().alive
    return Tended(wanted, alive)


def _live_jobs(world: World) -> Iterator[_Job]:
    for _, key in keyed(world.store, ACTIVE_PREFIX, ActiveKey):
        with suppress(Malformed, NotFound):  # reconciling it tells of it; the others want workers
            present = find_head(world.store, key.job)
            if present is not None:
                plan = world.plans.read(present.head)
                workers = workers_for(present.head, plan)
                yield _Job(present.head, plan.spec.workers, workers)


def _read(store: ObjectStore, key: str) -> tuple[Muster | None, Absent | str]:
    """Return the last start, None where there is none to be read, and what replaces it."""
    try:
        found = store.get(key)
    except NotFound:
        return None, ABSENT
    with suppress(Malformed):
        return Muster.from_json(found.body), found.etag
    return None, found.etag


def _note(store: ObjectStore, key: str, start: Start, only_if: Absent | str) -> bool:
    try:
        store.put(key, start.muster.to_json(), only_if=only_if)
    except ConditionFailed:
        return False
    return True
