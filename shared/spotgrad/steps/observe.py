"""Observe: what the attempt records and the queue say of a job's open subtasks.

Reads alone. Ages come from the store's modification times, never from a worker's clock; how long
an attempt lasted is a difference of one worker's clock.
"""

from spotgrad.planning.leases import Sighting, Sky
from spotgrad.planning.standing import open_items
from spotgrad.ports import ObjectInfo, TaskGauge
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import AttemptKey, attempts_prefix
from spotgrad.steps.attempt_reader import AttemptReader, lasted
from spotgrad.steps.documents import keyed
from spotgrad.steps.world import World

DURATIONS_READ = 20
"""How many attempts at finished subtasks are read to learn how long one takes."""


def observe(world: World, gauge: TaskGauge, lease_seconds: int, head: Head) -> Sky:
    """Read the attempts of the open epochs, and how deep the queue is."""
    open_now = {(item.epoch, item.subtask) for item in open_items(head)}
    sightings: dict[tuple[int, str], list[Sighting]] = {}
    finished: list[ObjectInfo] = []
    for epoch in sorted({epoch for epoch, _ in open_now}):
        for info, key in keyed(world.store, attempts_prefix(head.job, epoch), AttemptKey):
            subtask = (key.epoch, key.subtask)
            if subtask in open_now:
                sightings.setdefault(subtask, []).extend(_sightings(world.attempts, info, head))
            elif key.subtask.startswith("train"):
                finished.append(info)
    return Sky(
        sightings=sightings,
        durations_seconds=_durations(world.attempts, finished[:DURATIONS_READ], head),
        queue_depth=gauge.depth(),
        lease_seconds=lease_seconds,
        now=world.clock.now(),
    )


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
