"""How long a job will still take, from how fast its results were merged of late."""

from collections import deque
from typing import Final

__all__ = ["Pace", "duration_text"]

_WINDOW_SECONDS: Final = 120.0


class Pace:
    """Observations of a count that grows; times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def observe(self, at_seconds: float, count: int) -> None:
        """Note that ``count`` things were done at this time; what is long past is forgotten."""
        self._seen.append((at_seconds, count))
        # One observation older than the window stays: the window is then covered whole.
        while len(self._seen) > 2 and at_seconds - self._seen[1][0] >= _WINDOW_SECONDS:
            self._seen.popleft()

    def seconds_left(self, remaining: int) -> float | None:
        """Return how long ``remaining`` more will take; None while nobody can know."""
        if len(self._seen) < 2:
            return None
        (begin, first), (end, last) = self._seen[0], self._seen[-1]
        if end <= begin or last <= first:
            return None
        return remaining * (end - begin) / (last - first)


def duration_text(seconds: float) -> str:
    """Return a duration as a person reads it: ``42 s``, ``3 min 05 s``, ``2 h 07 min``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
