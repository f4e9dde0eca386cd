"""Observe: what the attempt records and the queue say of a job's open subtasks.

Reads alone. Ages come from the store's modification times, never from a worker's clock; how long
an attempt lasted is a difference of one worker's clock.
"""

from contextlib import suppress
from datetime import timedelta

from spotgrad.errors import Malformed, NotFound
from spotgrad.planning.leases import Sighting, Sky
from spotgrad.planning.standing import open_items
from spotgrad.ports import ObjectInfo, ObjectReader, TaskGauge
from spotgrad.protocol.attempt import Attempt
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import AttemptKey, attempts_prefix
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
                sightings.setdefault(subtask, []).extend(_sightings(world.store, info, head))
            elif key.subtask.startswith("train"):
                finished.append(info)
    return Sky(
        sightings=sightings,
        durations_seconds=_durations(world.store, finished[:DURATIONS_READ], head),
        queue_depth=gauge.depth(),
        lease_seconds=lease_seconds,
        now=world.clock.now(),
    )


def read_attempt(store: ObjectReader, info: ObjectInfo, head: Head) -> Attempt | None:
    """Return an attempt record of the head's run; None when it is damaged, gone or another's."""
    with suppress(Malformed, NotFound):
        attempt = Attempt.from_json(store.get(info.key).body)
        return attempt if attempt.run == head.run else None
    return None


def lasted(attempt: Attempt) -> timedelta:
    """Return how long it took up to its last beat; a clock that was set back counts as nothing."""
    return max(timedelta(0), attempt.beat_at - attempt.started_at)


def _sightings(store: ObjectReader, info: ObjectInfo, head: Head) -> list[Sighting]:
    attempt = read_attempt(store, info, head)
    if attempt is None:
        return []
    return [Sighting(info.modified_at, attempt.outcome, lasted(attempt))]


def _durations(store: ObjectReader, infos: list[ObjectInfo], head: Head) -> list[float]:
    """Return how long the attempts that came to a result took."""
    attempts = [read_attempt(store, info, head) for info in infos]
    return [
        lasted(one).total_seconds()
        for one in attempts
        if one is not None and one.outcome == "uploaded"
    ]
