"""A thread that looks after something every few seconds while the worker works.

Three of them: one extends the lease, one writes the attempt's heartbeat and asks the head whether
the subtask is still wanted, one asks the machine for a Spot notice. Each has a thread of its own: a
slow bucket must not cost the message. The threads wait on an event, never sleep.
"""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from spotgrad.errors import Retry, SpotgradError
from spotgrad.ports import Clock

__all__ = ["Rounds"]

log = logging.getLogger(__name__)

RETRIES_PER_ROUND: Final = 4
"""After a failed visit the next one comes sooner."""


class Rounds:
    """Calls ``visit`` every ``seconds``, first after that time, until the block ends."""

    def __init__(
        self, visit: Callable[[], None], clock: Clock, *, seconds: float, name: str
    ) -> None:
        self.problem: SpotgradError | None = None
        self.next_at = clock.monotonic() + seconds
        self._visit = visit
        self._clock = clock
        self._seconds = seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go, name=name, daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the thread; no visit happens after this."""
        self._over.set()
        self._thread.join()

    def check(self) -> None:
        """Raise what the last visit found, if it was more than a hiccup."""
        if self.problem is not None:
            raise self.problem

    def make(self) -> None:
        """Visit once; after a ``Retry`` the next visit comes sooner, any other error ends them."""
        began_at, seconds = self._clock.monotonic(), self._seconds
        try:
            self._visit()
        except Retry as error:
            log.warning("retry %s: %s", self._thread.name, error)
            seconds /= RETRIES_PER_ROUND
        except SpotgradError as error:
            self.problem = error  # whoever checks raises it
        self.next_at = began_at + seconds

    def _go(self) -> None:
        while self.problem is None:
            if self._over.wait(max(0.0, self.next_at - self._clock.monotonic())):
                return
            self.make()
