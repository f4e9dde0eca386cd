"""Why a job stands still: the cause that ``reconcile`` writes into the head's reason.

Not a verdict: the job goes on as soon as it can, and the reason goes away. Invariant: a job in
which some attempt gets further than those before it did is never called stuck, however long its
subtasks take.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from spotgrad.planning.fleet import FleetView
from spotgrad.planning.leases import Sighting, Sky
from spotgrad.planning.standing import open_items
from spotgrad.protocol.head import Head

PATIENCE_LEASES: Final = 10
MACHINE_PATIENCE_LEASES: Final = 5
"""A machine that has not come by then is worth a word: somebody has to ask for a quota."""
FRUITLESS: Final = 3
"""So many attempts must have come to nothing before they are called the cause."""

NOBODY: Final = "no worker has begun anything"
UNSAID: Final = (
    "nobody says why; mostly the Spot vCPU quota of the instance family, instance types that the "
    "region has none of, or subnets without a way to the internet (spotgrad doctor looks)"
)
CAME_TO_NOTHING: Final = frozenset({"failed", "uploaded"})
"""Ends of an attempt at a subtask that is open still: its result was a failure, or refused."""


def landmarks(head: Head) -> tuple[Any, ...]:
    """Return what differs between two heads when the job got on, or the user moved it."""
    groups = (*head.epochs, *head.late, *head.evaluations)
    ends = tuple((one.epoch, one.done) for one in groups)
    wishes = (head.state, head.resume_token, head.redrive_token)
    return (head.version, head.results_merged, len(head.evaluated), len(head.dead), ends, wishes)


def diagnose(head: Head, sky: Sky) -> Head:
    """Return the head with the cause for which it stands still as its reason, or with none."""
    if head.ended or head.state == "PAUSED":
        return head
    since = head.moved_at
    reason = None
    if sky.now - since > _patience(sky):
        cause = _cause(head, sky, since)
        reason = cause and f"no progress since {_shown(since)}: {cause}"
    return head if reason == head.reason else head.model_copy(update={"reason": reason})


def _patience(sky: Sky) -> timedelta:
    usual = timedelta(seconds=PATIENCE_LEASES * sky.lease_seconds)
    since = None if sky.fleet is None else _no_machine_since(sky.fleet)
    if since is None:
        return usual
    short = timedelta(seconds=MACHINE_PATIENCE_LEASES * sky.lease_seconds)
    return short if sky.now - since > short else usual


def _no_machine_since(fleet: FleetView) -> datetime | None:
    """Return since when all workers wait for a machine; None while one has begun."""
    return None if fleet.running else fleet.waiting_since


def _cause(head: Head, sky: Sky, since: datetime) -> str | None:
    attempts = [one for item in open_items(head) for one in sky.of(item) if one.seen_at > since]
    latest = max((one.seen_at for one in attempts), default=since)
    if sky.now - latest > _patience(sky):
        return _nobody(sky, since, latest)
    alive = [one for one in attempts if sky.is_alive(one)]
    fruitless = [one for one in attempts if not sky.is_alive(one)]
    if len(fruitless) < FRUITLESS or _gets_further(alive, fruitless):
        return None
    failures = sum(one.outcome in CAME_TO_NOTHING for one in fruitless)
    if 2 * failures > len(fruitless):
        return f"attempts come to nothing, the last: {head.last_mishap or 'its result is missing'}"
    return "attempts begin but none ends: their workers vanish or give the work back"


def _nobody(sky: Sky, since: datetime, latest: datetime) -> str:
    """Word it without numbers that change from minute to minute: each change is a commit."""
    begun = NOBODY if latest == since else f"{NOBODY} after {_shown(latest)}"
    if sky.queue_depth:
        return f"{begun}, though messages wait: {_of_fleet(sky.fleet)}"
    return f"{begun}, and the queue is empty: what is open is being sent again"


def _of_fleet(fleet: FleetView | None) -> str:
    if fleet is None:
        return "no worker is running, or all serve other jobs"
    since = _no_machine_since(fleet)
    if since is not None:
        return f"workers wait for a machine since {_shown(since)}: {fleet.obstacle or UNSAID}"
    if fleet.alive:
        return "workers are there, but all serve other jobs or are still starting"
    if fleet.obstacle:
        return f"no worker is started: {fleet.obstacle}"
    if fleet.mishap:
        return f"no worker is alive, and the last one failed: {fleet.mishap}"
    return "no worker is alive: they are being started"


def _gets_further(alive: Sequence[Sighting], fruitless: Sequence[Sighting]) -> bool:
    """Return whether a live attempt has lasted longer than each that came to nothing."""
    longest = max(one.lasted for one in fruitless)
    return any(one.lasted > longest for one in alive)


def _shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
