"""The port ``WorkerFleet`` on one laptop: ``python -m worker_image``, a process a worker.

AWS Batch's part in the cloud: ``start`` is its queue, ``tend`` finds places for those that wait, as
many as there are, and puts another in the place of one that vanished, as Batch does when Spot takes
a machine. Workers that cannot even start end the run with their own last words.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path

from infra.local.child import Child
from spotgrad.errors import Reject
from spotgrad.planning.fleet import FleetView
from spotgrad.planning.offer import Offer
from spotgrad.system import SystemClock

GRACE_SECONDS = 5.0
STARTS_PER_WORKER = 50
"""More starts than this without any progress of the job mean that no worker survives."""
WORKER = "worker_image"


def paced(slow_seconds: Sequence[float]) -> Callable[[int], Sequence[str]]:
    """Return the arguments of the n-th worker, from 1: one of the waits each, in turn."""

    def arguments(number: int) -> Sequence[str]:
        if not slow_seconds:
            return ()
        return "--slow", str(slow_seconds[(number - 1) % len(slow_seconds)])

    return arguments


class WorkersFailed(Reject):
    """Workers end as fast as they are started."""


class Fleet:
    """At most ``places`` workers at once; ``tend`` replaces those that ended."""

    offer = Offer("local", spot=False, gpus=None)
    """This machine stands in for every other: nobody takes it away, and it has what it has."""

    def __init__(
        self,
        places: int,
        environment: Callable[[str], Mapping[str, str]],
        log: Path,
        arguments: Callable[[int], Sequence[str]] = lambda _: (),
        *,
        module: str = WORKER,
        start: type[Child] = Child,
    ) -> None:
        self._places = places
        self._start_child = start
        self._environment = environment
        self._log = log
        self._arguments = arguments
        self._module = module
        self._numbers = count(1)
        self._children: dict[str, Child] = {}
        self._waiting: list[datetime] = []
        """When each of those was started that have no place yet."""
        self._starts_in_vain = 0
        self._progress = 0
        self.started: list[int] = []
        """The process ids of all workers that ever were."""

    def look(self) -> FleetView:
        """Return how many have a place and how many wait for one."""
        waiting_since = min(self._waiting, default=None)
        return FleetView(len(self._children), len(self._waiting), waiting_since)

    def start(self, workers: int) -> None:
        """Let so many more come as soon as there are places: the next ``tend`` sees to it."""
        self._waiting += [SystemClock().now()] * workers

    @property
    def pids(self) -> Mapping[str, int]:
        """The process ids, by worker name, of those that were alive when last tended."""
        return {name: child.pid for name, child in self._children.items()}

    def tend(self, progress: int = 0) -> int:
        """Fill the places; return how many workers ended since the last call.

        ``progress`` is any number that grows as the job gets on: starts are then counted anew.

        Raises:
            WorkersFailed: too many starts without progress.
        """
        if progress > self._progress:
            self._progress, self._starts_in_vain = progress, 0
        ended = {name: one for name, one in self._children.items() if one.poll() is not None}
        for name, child in ended.items():
            child.end(grace_seconds=0)
            child.stdout.close()
            del self._children[name]
            self._begin()
        while self._waiting and len(self._children) < self._places:
            self._begin()
            del self._waiting[0]
        return len(ended)

    def signal(self, name: str, number: int) -> bool:
        """Send a signal to one worker, from any thread; return whether it was there."""
        child = self._children.get(name)
        return child is not None and child.signal(number)

    def dismiss(self) -> None:
        """Ask every worker to leave: each gives its message back and goes; do not wait."""
        for child in self._children.values():
            child.stdin.close()

    def stop(self) -> None:
        """Wait until every worker has left, and end those that do not; all share one grace."""
        self.dismiss()
        ends_at = time.monotonic() + GRACE_SECONDS
        for child in self._children.values():
            child.end(grace_seconds=max(0.0, ends_at - time.monotonic()))
            child.stdout.close()
        self._children, self._waiting = {}, []

    def _begin(self) -> None:
        self._starts_in_vain += 1
        if self._starts_in_vain > STARTS_PER_WORKER * self._places:
            raise WorkersFailed(
                f"workers end as fast as they start: {self._last_words()} (see {self._log})"
            )
        number = next(self._numbers)
        name = f"local-{number}"
        child = self._start_child(
            self._module,
            "--leave-with-parent",
            *self._arguments(number),
            environment=self._environment(name),
            log=self._log,
        )
        self._children[name] = child
        self.started.append(child.pid)

    def _last_words(self) -> str:
        text = self._log.read_text(encoding="utf-8", errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else "without a word"
