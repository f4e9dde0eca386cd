"""How many workers to start: as many as there is work for, less those that are alive.

Workers serve any job of their fleet, so the fleet is planned as a whole. None is ever stopped: they
leave when nothing comes any more. Invariants: a start that is only announced counts as alive until
it is listed; starts after which no job gets on come further and further apart, because machines
that achieve nothing cost as much as others.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from spotgrad.planning.issue import outstanding
from spotgrad.protocol.head import Head
from spotgrad.protocol.muster import Muster
from spotgrad.protocol.plan import JobPlan

SETTLING: Final = timedelta(seconds=30)
"""So long a start may take to be seen in the provider's lists."""
FIRST_PAUSE: Final = timedelta(minutes=1)
LONGEST_PAUSE: Final = timedelta(minutes=32)
LASTING: Final = timedelta(minutes=15)
"""Workers that were there for so long were not in vain, though no subtask ended: it may be long."""
MOST_AT_ONCE: Final = 100
"""Each is a request, a function has a timeout for all of them, and the next minute comes."""


@dataclass(frozen=True)
class FleetView:
    """How a fleet stands, as its provider lists it: approximate, and perhaps a moment old."""

    running: int = 0
    """Workers that have a machine and have begun."""
    coming: int = 0
    """Workers that were started and wait for a machine, or for their container on it."""
    waiting_since: datetime | None = None
    """Since when the one that has waited longest for a machine does."""
    obstacle: str | None = None
    """What the provider says keeps it waiting; or, when none is alive, why none is started."""
    mishap: str | None = None
    """How the worker that failed last ended; looked for only when none is alive."""

    @property
    def alive(self) -> int:
        """Return how many workers there are, or will be without another start."""
        return self.running + self.coming


def workers_for(head: Head, plan: JobPlan) -> int:
    """Return how many workers the job has work for: none while it rests."""
    if head.ended or head.state == "PAUSED":
        return 0
    return min(outstanding(head), plan.spec.workers.max)


def news_of(heads: Iterable[Head]) -> datetime | None:
    """Return when a job last got on, or began; None without any job."""
    return max((head.moved_at for head in heads), default=None)


class Start(NamedTuple):
    """A start that is due: so many more, and what is to be noted before."""

    more: int
    muster: Muster


def next_start(
    wanted: int, alive: int, last: Muster | None, news: datetime | None, now: datetime
) -> Start | None:
    """Return the start that is due now, or None when there are workers enough, or not yet.

    ``news``: when a job last got on (``news_of``); ``last``: the last start that was noted.
    """
    if last is not None and now - last.at < SETTLING:
        alive = max(alive, last.workers)
    if alive >= wanted:
        return None
    in_vain = 0
    if last is not None and alive < last.workers and (news is None or news <= last.at):
        age, pause = now - last.at, _pause(last.in_vain)
        if age < pause:
            return None
        in_vain = 0 if age >= max(LASTING, 2 * pause) else last.in_vain + 1
    workers = min(wanted, alive + MOST_AT_ONCE)
    return Start(workers - alive, Muster(at=now, workers=workers, in_vain=in_vain))


def _pause(in_vain: int) -> timedelta:
    doublings = min(in_vain, 10)  # no more of them matter, and a timedelta has an end
    return min(FIRST_PAUSE * (1 << doublings), LONGEST_PAUSE)
