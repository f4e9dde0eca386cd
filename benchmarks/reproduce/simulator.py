"""Virtual time: places take subtasks, lose some, bring results, and servers merge them in turn.

The pipeline without its wires. What a subtask does and what a merge is come from outside (``Work``:
``training.Pipeline`` is torch and the product's rules and kernel, ``Clockwork`` nothing at all).
Invariants: every subtask of every epoch is merged exactly once; a result is trained from the
version that was current when its own try began; the same seed gives the same run.
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Literal, Protocol

from benchmarks.reproduce.fleet import Fates, Fleet
from spotgrad.planning.order import shard_order

__all__ = ["Clockwork", "Merged", "Plan", "Trace", "Work", "simulate"]


@dataclass(frozen=True)
class Plan:
    """The subtasks of a job: one per shard and epoch."""

    epochs: int
    shards: int
    issue: Literal["barrier", "rolling"] = "barrier"
    seed: int = 0


class Work(Protocol):
    """What is done in no time at all, as far as this module knows."""

    def begin(self, epoch: int) -> Any:
        """Return the version that a subtask of ``epoch`` begins from now."""

    def train(self, epoch: int, shard: int, start: Any) -> Any:
        """Return the result of a subtask that began from ``start``."""

    def admit(self, result: Any) -> bool:
        """Return whether a result may be merged; a refused one is issued again."""

    def merge(self, epoch: int, result: Any, *, ends_epoch: bool, ends_job: bool) -> None:
        """Merge an admitted result, which may be the last of its epoch, or of all."""


@dataclass(frozen=True)
class Merged:
    """A result has been merged: when, and how many of its epoch are by now."""

    at: float
    epoch: int
    number: int


@dataclass
class Trace:
    """How a run went."""

    seconds: float = 0.0
    tries: int = 0
    lost: int = 0
    refused: int = 0
    waited_seconds: float = 0.0
    """How long results waited for a server, all together."""
    epoch_ends: list[float] = field(default_factory=list)


class Clockwork:
    """Work without content: for questions about time alone."""

    def begin(self, epoch: int) -> None:
        """Begin from nothing."""

    def train(self, epoch: int, shard: int, start: None) -> None:
        """Make nothing."""

    def admit(self, result: None) -> bool:
        """Let everything in."""
        del result
        return True

    def merge(self, epoch: int, result: None, *, ends_epoch: bool, ends_job: bool) -> None:
        """Change nothing."""


def simulate(
    plan: Plan,
    fleet: Fleet,
    work: Work,
    on_merge: Callable[[Merged], None] = lambda _: None,
    *,
    seed: int = 0,
) -> Trace:
    """Run the job to its end and return how it went; ``seed`` draws durations and losses."""
    return _Run(plan, fleet, work, on_merge, seed).to_the_end()


Subtask = tuple[int, int]
"""Epoch and shard."""


class _Run:
    def __init__(
        self,
        plan: Plan,
        fleet: Fleet,
        work: Work,
        on_merge: Callable[[Merged], None],
        seed: int,
    ) -> None:
        self._plan, self._fleet, self._work, self._on_merge = plan, fleet, work, on_merge
        self._fates = Fates(fleet, seed)
        self._trace = Trace()
        self._now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._free = fleet.places
        self._idle_servers = fleet.servers
        self._ready: deque[Subtask] = deque()
        self._results: deque[tuple[float, Subtask, Any]] = deque()
        self._merged: dict[int, set[int]] = {epoch: set() for epoch in range(1, plan.epochs + 1)}

    def to_the_end(self) -> Trace:
        self._ready.extend((1, shard) for shard in self._order(1))
        self._fill()
        while self._events:
            self._now, _, act = heapq.heappop(self._events)
            act()
            if not self._events or self._events[0][0] > self._now:
                self._fill()  # a merge that takes no time comes before the next try
        self._trace.seconds = self._now
        return self._trace

    def _order(self, epoch: int) -> tuple[int, ...]:
        return shard_order(self._plan.seed, epoch, self._plan.shards)

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self._now + seconds, next(self._numbers), act))

    def _fill(self) -> None:
        while self._free and self._ready:
            self._free -= 1
            self._try(self._ready.popleft())

    def _try(self, subtask: Subtask) -> None:
        fate = self._fates.next()
        self._trace.tries += 1
        if fate.lost:
            self._after(fate.seconds, lambda: self._lost(subtask))
            return
        start = self._work.begin(subtask[0])
        self._after(fate.seconds, lambda: self._arrived(subtask, start))

    def _lost(self, subtask: Subtask) -> None:
        self._trace.lost += 1
        self._free += 1
        self._ready.appendleft(subtask)

    def _arrived(self, subtask: Subtask, start: Any) -> None:
        self._free += 1
        self._results.append((self._now, subtask, self._work.train(*subtask, start)))
        self._serve()

    def _serve(self) -> None:
        while self._idle_servers and self._results:
            self._idle_servers -= 1
            came, subtask, result = self._results.popleft()
            self._trace.waited_seconds += self._now - came
            self._after(self._fleet.merge_seconds, partial(self._served, subtask, result))

    def _served(self, subtask: Subtask, result: Any) -> None:
        self._idle_servers += 1
        if self._work.admit(result):
            self._merge(subtask, result)
        else:
            self._trace.refused += 1
            self._ready.appendleft(subtask)
        self._serve()

    def _merge(self, subtask: Subtask, result: Any) -> None:
        epoch, shard = subtask
        done = self._merged[epoch]
        done.add(shard)
        ends_epoch = len(done) == self._plan.shards
        ends_job = all(len(one) == self._plan.shards for one in self._merged.values())
        self._work.merge(epoch, result, ends_epoch=ends_epoch, ends_job=ends_job)
        self._on_merge(Merged(self._now, epoch, len(done)))
        if ends_epoch:
            self._trace.epoch_ends.append(self._now)
        self._issue_after(epoch, shard, ends_epoch=ends_epoch)

    def _issue_after(self, epoch: int, shard: int, *, ends_epoch: bool) -> None:
        """Put out what this merge makes possible: the next epoch, or its subtask on this shard."""
        following = epoch + 1
        if following > self._plan.epochs:
            return
        if self._plan.issue == "barrier":
            if ends_epoch:
                self._ready.extend((following, each) for each in self._order(following))
            return
        self._issue_rolling(epoch, shard, ends_epoch=ends_epoch)

    def _issue_rolling(self, epoch: int, shard: int, *, ends_epoch: bool) -> None:
        oldest = min(e for e, one in self._merged.items() if len(one) < self._plan.shards)
        if epoch <= oldest:  # at most one epoch ahead of the oldest that is open
            self._ready.append((epoch + 1, shard))
        if ends_epoch and epoch + 2 <= self._plan.epochs:
            done = self._merged[epoch + 1]
            self._ready.extend((epoch + 2, each) for each in self._order(epoch + 2) if each in done)
