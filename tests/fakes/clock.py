"""Time that moves only when a test says so."""

import threading
from datetime import UTC, datetime, timedelta

START = datetime(2030, 1, 1, tzinfo=UTC)


class FakeClock:
    """The port ``Clock``; both of its times advance together, by ``advance`` alone."""

    def __init__(self, start: datetime = START) -> None:
        self._lock = threading.Lock()
        self._start = start
        self._elapsed_seconds = 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed_seconds)

    def monotonic(self) -> float:
        return self._elapsed_seconds

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"time never goes back: {seconds} s")
        with self._lock:
            self._elapsed_seconds += seconds
