"""Observe: what the attempt records, the queue and the fleet say of a job's open subtasks.

Reads alone. Ages come from the store's modification times, never from a worker's clock; how long
an attempt lasted is a difference of one worker's clock.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from spotgrad.errors import SpotgradError
from spotgrad.planning.fleet import FleetView
from spotgrad.planning.leases import LONGEST_WAIT, Sighting, Sky
from spotgrad.planning.offer import serving, why_unserved
from spotgrad.planning.standing import open_items
from spotgrad.ports import ObjectInfo, TaskGauge, WorkerFleet
from spotgrad.protocol.head import Head
from spotgrad.protocol.job import Workers
from spotgrad.protocol.keys import AttemptKey, attempts_prefix
from spotgrad.steps.attempt_reader import AttemptReader, lasted
from spotgrad.steps.documents import keyed
from spotgrad.steps.world import World

DURATIONS_READ = 20
"""How many attempts at finished subtasks are read to learn how long one takes."""


def observe(
    world: World,
    gauge: TaskGauge,
    lease_seconds: int,
    head: Head,
    fleets: Sequence[WorkerFleet] = (),
) -> Sky:
    """Read the attempts of the open epochs, how deep the queue is and, if need be, its fleet."""
    open_now = {(item.epoch, item.subtask) for item in (*open_items(head), *head.checks)}
    sightings: dict[tuple[int, str], list[Sighting]] = {}
    finished: list[ObjectInfo] = []
    for epoch in sorted({epoch for epoch, _ in open_now}):
        for info, key in keyed(world.store, attempts_prefix(head.job, epoch), AttemptKey):
            subtask = (key.epoch, key.subtask)
            if subtask in open_now:
                sightings.setdefault(subtask, []).extend(_sightings(world.attempts, info, head))
            elif key.subtask.startswith("train"):
                finished.append(info)
    sky = Sky(sightings, (), gauge.depth(), lease_seconds, world.clock.now())
    if fleets and _nobody_works(head, sky):
        sky = replace(sky, fleet=_view(fleets, world.plans.read(head).spec.workers))
    if not _somebody_is_slow(head, sky):
        return sky
    durations = _durations(world.attempts, finished[:DURATIONS_READ], head)
    return replace(sky, durations_seconds=durations)


def _nobody_works(head: Head, sky: Sky) -> bool:
    """Return whether messages wait and no attempt is being made: the usual minute sees one."""
    return sky.queue_depth > 0 and not any(sky.alive(item) for item in open_items(head))


def _view(fleets: Sequence[WorkerFleet], asks: Workers) -> FleetView | None:
    """Return how the fleet that serves the job stands; why none does, of one deployed anew."""
    offers = [fleet.offer for fleet in fleets]
    index = serving(offers, asks)
    if index is None:
        return FleetView(obstacle=why_unserved(offers, asks))
    with suppress(SpotgradError):  # only for the reason's wording: mending goes on without it
        return fleets[index].look()
    return None


def _somebody_is_slow(head: Head, sky: Sky) -> bool:
    """Return whether it matters how long others took: the usual minute does without."""
    lease = timedelta(seconds=sky.lease_seconds)
    seen = (one for attempts in sky.sightings.values() for one in attempts)
    if any(sky.now - one.began_at > lease for one in seen):
        return True
    groups = (*head.epochs, *head.late, *head.evaluations)
    return any(sky.now - one.issued_at > LONGEST_WAIT for one in groups)


def _sightings(reader: AttemptReader, info: ObjectInfo, head: Head) -> list[Sighting]:
    attempt = reader.read(info, head)
    if attempt is None:
        return []
    return [Sighting(info.modified_at, attempt.outcome, lasted(attempt))]


def _durations(reader: AttemptReader, infos: list[ObjectInfo], head: Head) -> list[float]:
    """Return how long the attempts that came to a result took."""
    attempts = [reader.read(info, head) for info in infos]
    return [
        lasted(one).total_seconds()
        for one in attempts
        if one is not None and one.outcome == "uploaded"
    ]
