"""The laptop's worker fleet: ``python -m worker_image`` as many times as wanted, kept alive.

AWS Batch's part in the cloud. A worker that vanishes is replaced, as a Spot instance is; workers
that cannot even start end the run with their own last words.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path

from infra.local.child import Child
from spotgrad.errors import Reject

GRACE_SECONDS = 5.0
STARTS_PER_WORKER = 50
"""More replacements than this in one run means that no worker survives."""


class WorkersFailed(Reject):
    """Workers end as fast as they are started."""


class Fleet:
    """``size`` workers; ``tend`` replaces those that ended."""

    def __init__(
        self,
        size: int,
        environment: Callable[[str], Mapping[str, str]],
        log: Path,
        arguments: Sequence[str] = (),
    ) -> None:
        self._size = size
        self._environment = environment
        self._log = log
        self._arguments = arguments
        self._numbers = count(1)
        self._children: dict[str, Child] = {}

    @property
    def pids(self) -> Mapping[str, int]:
        """The process ids, by worker name, of those that were alive when last tended."""
        return {name: child.pid for name, child in self._children.items()}

    def tend(self) -> int:
        """Start what is missing; return how many workers ended since the last call.

        Raises:
            WorkersFailed: too many of them have ended in this run.
        """
        ended = {name: one for name, one in self._children.items() if one.poll() is not None}
        for name, child in ended.items():
            child.end(grace_seconds=0)
            child.stdout.close()
            del self._children[name]
        while len(self._children) < self._size:
            self._start()
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
        """Wait until every worker has left, and end those that do not."""
        self.dismiss()
        for child in self._children.values():
            child.end(grace_seconds=GRACE_SECONDS)
            child.stdout.close()
        self._children = {}

    def _start(self) -> None:
        number = next(self._numbers)
        if number > STARTS_PER_WORKER * self._size:
            raise WorkersFailed(f"workers end as fast as they start; see {self._log}")
        arguments = ("--leave-with-parent", *self._arguments)
        name = f"local-{number}"
        environment = self._environment(name)
        self._children[name] = Child(
            "worker_image", *arguments, environment=environment, log=self._log
        )
