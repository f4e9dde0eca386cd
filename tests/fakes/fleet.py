"""A fleet in memory, strict where moto is lax.

Workers stay where a test puts them: moto's come to their end by themselves. A start may take a
while to be listed, as on AWS, and may fail half-way. Time is a ``FakeClock``'s.
"""

import threading
from collections import Counter
from datetime import datetime, timedelta

from spotgrad.planning.fleet import FleetView
from spotgrad.planning.offer import Offer
from tests.fakes.clock import FakeClock
from tests.fakes.faults import Faults

SPOT = Offer("spot", spot=True, gpus=0)


class FakeFleet:
    """The port ``WorkerFleet``.

    Args:
        clock: runs the time until a start is listed.
        offer: what its workers run on.
        listed_after_seconds: how long that takes.

    Attributes:
        running, obstacle, mishap: what a test lets become of the fleet.
        started: how many were ever started.
        faults: order them with ``fleet.faults.order(Fault.UNAVAILABLE, operation="start")``; an
            answer that is lost comes after one worker was started.
        calls: number of calls by operation, failed ones included.
    """

    def __init__(
        self,
        clock: FakeClock | None = None,
        *,
        offer: Offer = SPOT,
        listed_after_seconds: float = 0,
    ) -> None:
        self.offer = offer
        self.clock = clock or FakeClock()
        self.faults = Faults()
        self.calls: Counter[str] = Counter()
        self.running = 0
        self.obstacle: str | None = None
        self.mishap: str | None = None
        self.started = 0
        self._lag = timedelta(seconds=listed_after_seconds)
        self._coming: list[datetime] = []
        self._lock = threading.Lock()

    def look(self) -> FleetView:
        self._begin("look")
        with self._lock:
            seen = [at for at in self._coming if self.clock.now() - at >= self._lag]
            if not seen and not self.running:
                return FleetView(mishap=self.mishap)
            since = min(seen, default=None)
            return FleetView(self.running, len(seen), since, self.obstacle if seen else None)

    def start(self, workers: int) -> None:
        self._begin("start")
        for _ in range(workers):
            with self._lock:
                self._coming.append(self.clock.now())
                self.started += 1
            self.faults.raise_answer_lost("start")

    def board(self, workers: int | None = None) -> None:
        """Let so many of those that come (all, by default) get a machine and begin."""
        with self._lock:
            count = len(self._coming) if workers is None else workers
            if count > len(self._coming):
                raise ValueError(f"{count} to begin, but only {len(self._coming)} come")
            del self._coming[:count]
            self.running += count

    def vanish(self) -> None:
        """Let every worker end."""
        with self._lock:
            self.running = 0
            self._coming = []

    def _begin(self, operation: str) -> None:
        with self._lock:
            self.calls[operation] += 1
        self.faults.raise_unavailable(operation)
