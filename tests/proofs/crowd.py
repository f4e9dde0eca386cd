"""Aggregators in threads over one heap of events, as SQS and Lambda would drive them.

Every event is delivered twice, in an order drawn by a seed; a batch whose step asks for a retry
goes back to the heap. A share of the head PUTs meets 409 or a lost answer.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from spotgrad.errors import ConditionFailed, Retry, StoreUnavailable
from spotgrad.protocol.keys import ResultKey
from spotgrad.steps.aggregate_results import aggregate_results
from spotgrad.steps.world import World
from tests.builders import JOB
from tests.fakes.store import Write

DELIVERIES = 2
MOST_PER_BATCH = 5


class Events:
    """The results queue: at least once, in any order, until acknowledged."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - an order, not a secret
        self._changed = threading.Condition()
        self._waiting: list[ResultKey] = []
        self._leased = 0

    def put(self, keys: Iterable[ResultKey]) -> None:
        with self._changed:
            self._waiting += [key for key in keys for _ in range(DELIVERIES)]
            self._random.shuffle(self._waiting)
            self._changed.notify_all()

    def take(self) -> list[ResultKey]:
        """Return a batch; wait while others may still cause events; in the end return nothing."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or not self._leased)
            size = self._random.randint(1, MOST_PER_BATCH)
            batch, self._waiting = self._waiting[:size], self._waiting[size:]
            self._leased += len(batch)
            return batch

    def acknowledge(self, batch: Sequence[ResultKey]) -> None:
        with self._changed:
            self._leased -= len(batch)
            self._changed.notify_all()

    def give_back(self, batch: Sequence[ResultKey]) -> None:
        with self._changed:
            self._leased -= len(batch)
            self._waiting += batch
            self._changed.notify_all()


class Weather:
    """A store's hook: now and then a head PUT meets 409, or its answer is lost on the way back.

    Args:
        every: how many head PUTs are sent, and how many succeed, for each that is struck.
    """

    def __init__(self, every: int) -> None:
        self._every = every
        self._lock = threading.Lock()
        self._seen = Counter[str]()
        self.struck = Counter[str]()

    def on_write(self, write: Write) -> None:
        if not write.key.endswith("head.json"):
            return
        with self._lock:
            self._seen[write.moment] += 1
            if self._seen[write.moment] % self._every:
                return
            self.struck[write.moment] += 1
            odd = self.struck[write.moment] % 2
        if write.moment == "before" or odd:  # after: by an SDK that repeats a PUT on its own
            raise ConditionFailed(f"{write.moment} {write.key}: injected 409 or 412")
        raise StoreUnavailable(f"{write.moment} {write.key}: injected timeout")


def run_threads(count: int, work: Callable[[], None]) -> None:
    """Run ``work`` in so many threads; raise what the first of them raised."""
    raised: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised again in the test's own thread
            raised.append(error)

    threads = [threading.Thread(target=guarded, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def aggregator(
    make_world: Callable[[], World], events: Events, afterwards: Callable[[], None] = lambda: None
) -> Callable[[], None]:
    """Return the loop of one aggregator; ``afterwards`` may cause more events."""

    def work() -> None:
        world = make_world()  # one per thread, as each process has its own
        while batch := events.take():
            try:
                aggregate_results(world, JOB, batch)
            except Retry:
                events.give_back(batch)
            else:
                afterwards()
                events.acknowledge(batch)

    return work
