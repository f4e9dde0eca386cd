"""A request to stop, from a signal, a Spot notice or a test: asked for once, seen for ever.

A pipe rather than a ``threading.Event``: a signal handler runs in the middle of whatever the main
thread does, and setting an event whose lock that thread holds would hang it.
"""

import os
import select
import signal
from types import FrameType
from typing import Final

__all__ = ["Stop"]

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Whether the worker was asked to stop; waiting on it ends at once when it is.

    Attributes:
        requested: the machine is about to go.
        leaving: no further message is to be received; the subtask at hand may be finished.
        notices: seconds that each request left, from when it was made; nothing: as the settings
            say. More than one may come (a notice, then SIGTERM): the earliest end counts.
    """

    def __init__(self) -> None:
        self.requested = False
        self.leaving = False
        self.notices: list[float | None] = []
        self._reader, self._writer = os.pipe()

    def install(self) -> None:
        """Let SIGTERM and SIGINT request the stop; a second signal gives no further time."""
        for number in SIGNALS:
            signal.signal(number, self._on_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # blocked by the process before us

    def request(self, seconds: float | None = None) -> None:
        """Ask the worker to be gone within ``seconds``: it finishes what fits, or saves it."""
        self.notices.append(seconds)
        self.leaving = True
        if not self.requested:
            self.requested = True
            os.write(self._writer, b"!")

    def suggest(self) -> None:
        """Ask the worker to leave when its subtask is done, however long that takes."""
        self.leaving = True

    def wait(self, seconds: float) -> bool:
        """Wait for a request, at most ``seconds``, and return whether there is one."""
        # Nobody reads the byte, so the pipe stays readable for whoever waits next.
        ready, _, _ = select.select([self._reader], [], [], max(0.0, seconds))
        return bool(ready)

    def close(self) -> None:
        """Close both ends of the pipe; for tests, which make many."""
        os.close(self._reader)
        os.close(self._writer)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        # Ctrl-C: a person waits. SIGTERM: the platform said how long it waits.
        self.request(0.0 if number == signal.SIGINT else None)
