"""The machine is about to go: is there time to finish the subtask at hand, or is it cut off now?

A stopwatch and an estimate; not the signal (``interruption``), not its sources (``notice``).
Invariant: with time running, the answer changes from "go on" to "stop" while there is still time to
save what was done.
"""

from typing import Final

from spotgrad.errors import Skip
from spotgrad.ports import Clock
from worker_image.interruption import Stop
from worker_image.watch import Watch

__all__ = ["Departure", "StopRequested"]

FIRST_UPLOAD_SECONDS: Final = 5.0
"""Kept free for the upload (of the result, or of a partial) until one was measured."""
LEAST_UPLOAD_SECONDS: Final = 1.0


class StopRequested(Skip):
    """The worker was asked to stop: abort, and give the message back."""


class Departure:
    """Asked between two batches; measures how long a batch takes."""

    def __init__(self, stop: Stop, clock: Clock, *, notice_seconds: float) -> None:
        self._stop = stop
        self._clock = clock
        self._notice_seconds = notice_seconds
        self._upload_seconds = FIRST_UPLOAD_SECONDS
        self._asked_at = clock.monotonic()
        self._heeded = 0
        self._ends_at: float | None = None
        self._marked_at = self._asked_at

    def begin(self) -> None:
        """Another subtask begins: nothing is known about its batches."""
        self._marked_at = self._clock.monotonic()

    def uploaded(self, seconds: float) -> None:
        """Learn how long an upload took."""
        self._upload_seconds = max(LEAST_UPLOAD_SECONDS, 2 * seconds)

    def check(self, watch: Watch) -> None:
        """Return while the subtask may go on.

        Raises:
            StopRequested: the machine goes before the subtask would be done.
        """
        now = self._clock.monotonic()
        self._heed()
        self._asked_at = now
        batch_seconds = self._batch_seconds(now, watch.worked)
        if self._ends_at is None or watch.left == 0:
            return  # uploading what is finished takes no longer than saving it
        left = self._ends_at - now
        if batch_seconds is None or watch.left is None:
            raise StopRequested("asked to stop")
        needed = watch.left * batch_seconds + self._upload_seconds
        if needed > left:
            raise StopRequested(f"asked to stop: needs {needed:.1f} s, {left:.1f} s are left")

    def _heed(self) -> None:
        """Read the notices that came since the last check: at the earliest just after it."""
        for seconds in self._stop.notices[self._heeded :]:
            self._heeded += 1
            allowed = self._notice_seconds if seconds is None else seconds
            ends_at = self._asked_at + allowed
            self._ends_at = ends_at if self._ends_at is None else min(self._ends_at, ends_at)

    def _batch_seconds(self, now: float, worked: int) -> float | None:
        """Return the mean time of a batch; the first one, which warms up, is left out if it can."""
        if worked > 1:
            return (now - self._marked_at) / (worked - 1)
        seconds = now - self._marked_at if worked else None
        self._marked_at = now
        return seconds
