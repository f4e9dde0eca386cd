"""Tend the fleet: start the workers that the live jobs' open subtasks need and that are not there.

``plan`` and ``reconcile`` both do, and may at once: what one is about to start it notes first,
under a condition, so the other counts it. Whoever dies in between is made good a minute later.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from spotgrad.errors import ConditionFailed, Malformed, NotFound
from spotgrad.planning.fleet import Start, news_of, next_start, workers_for
from spotgrad.ports import ABSENT, Absent, ObjectStore, WorkerFleet
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import ACTIVE_PREFIX, ActiveKey, FleetKey
from spotgrad.protocol.muster import Muster
from spotgrad.steps.documents import find_head, keyed
from spotgrad.steps.world import World

ATTEMPTS: Final = 3
"""Each loss means that somebody else has started workers; the next minute looks again anyway."""


@dataclass(frozen=True)
class Tended:
    """What became of the fleet, for logs and metrics."""

    wanted: int = 0
    alive: int = 0
    started: int = 0


def tend_fleet(world: World, fleet: WorkerFleet) -> Tended:
    """Start what is missing for all live jobs together; without work the fleet is not even asked.

    Raises:
        Retry: the store or the fleet failed; some workers may have been started.
        Reject: the fleet does not exist, or may not be used: a person has to act.
    """
    heads = _live_heads(world)
    wanted = sum(_workers_for(world, head) for head in heads)
    if wanted == 0:
        return Tended()
    alive = fleet.look().alive
    for _ in range(ATTEMPTS):
        last, only_if = _read(world.store)
        start = next_start(wanted, alive, last, news_of(heads), world.clock.now())
        if start is None:
            break
        if _note(world.store, start, only_if):
            fleet.start(start.more)
            return Tended(wanted, alive, start.more)
        alive = fleet.look().alive
    return Tended(wanted, alive)


def _live_heads(world: World) -> Sequence[Head]:
    found = []
    for _, key in keyed(world.store, ACTIVE_PREFIX, ActiveKey):
        with suppress(Malformed):  # reconciling that job tells of it; the others want workers
            present = find_head(world.store, key.job)
            if present is not None:
                found.append(present.head)
    return found


def _workers_for(world: World, head: Head) -> int:
    with suppress(Malformed, NotFound):
        return workers_for(head, world.plans.read(head))
    return 0


def _read(store: ObjectStore) -> tuple[Muster | None, Absent | str]:
    """Return the last start, None where there is none to be read, and what replaces it."""
    try:
        found = store.get(FleetKey().render())
    except NotFound:
        return None, ABSENT
    with suppress(Malformed):
        return Muster.from_json(found.body), found.etag
    return None, found.etag


def _note(store: ObjectStore, start: Start, only_if: Absent | str) -> bool:
    try:
        store.put(FleetKey().render(), start.muster.to_json(), only_if=only_if)
    except ConditionFailed:
        return False
    return True
