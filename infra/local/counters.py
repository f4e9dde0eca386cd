"""Counts of what the functions went through, for the live display; safe between threads."""

import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import astuple, dataclass


@dataclass(frozen=True)
class Counts:
    """Totals of one function since the run began."""

    invocations: int = 0
    acknowledged: int = 0  # messages handed over and deleted
    retried: int = 0  # messages left in the queue to come back
    errors: int = 0  # invocations that raised or died
    timeouts: int = 0  # invocations that were killed for time

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            *(ours + more for ours, more in zip(astuple(self), astuple(other), strict=True))
        )


class Counters:
    """One ``Counts`` per function's logical id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: defaultdict[str, Counts] = defaultdict(Counts)

    def add(self, function: str, more: Counts) -> None:
        """Add to one function's totals."""
        with self._lock:
            self._counts[function] += more

    def snapshot(self) -> Mapping[str, Counts]:
        """Return the totals as of now."""
        with self._lock:
            return dict(self._counts)
