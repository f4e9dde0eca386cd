"""The chances of one kind of fault, from a seeded stream of its own, and the tally of what fell.

A stream per kind: asking for one fault more does not change what the others do. Which request
meets which number is up to the processes' own race, so a seed repeats the odds and not the run.
"""

import random
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Tally:
    """How often each kind of fault was injected; safe between threads."""

    def __init__(self, kinds: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._counts = Counter(dict.fromkeys(kinds, 0))

    def add(self, kind: str, count: int = 1) -> None:
        """Count ``count`` more; nothing more is no news."""
        with self._lock:
            if count:
                self._counts[kind] += count

    def snapshot(self) -> Mapping[str, int]:
        """Return the counts as of now."""
        with self._lock:
            return dict(self._counts)


class Dice:
    """Random decisions about one kind of fault; safe between threads."""

    def __init__(self, seed: int, kind: str, calm: threading.Event | None = None) -> None:
        self._random = random.Random(f"{seed}:{kind}")  # noqa: S311 -- a fault is no secret
        self._calm = calm or threading.Event()
        self._lock = threading.Lock()

    def hit(self, probability: float) -> bool:
        """Return whether it happens this time; never again once it is calm."""
        if not probability or self._calm.is_set():
            return False
        with self._lock:
            return self._random.random() < probability

    def seconds(self, most: float) -> float:
        """Return a time from 0 to ``most``."""
        with self._lock:
            return self._random.uniform(0.0, most)

    def whole(self, least: int, most: int) -> int:
        """Return a whole number from ``least`` to ``most``, both included."""
        with self._lock:
            return self._random.randint(least, most)

    def pick(self, items: Sequence[Item]) -> Item:
        """Return one of ``items``."""
        with self._lock:
            return self._random.choice(items)

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """Return ``items`` in another order (by chance in the same one)."""
        with self._lock:
            return self._random.sample(items, len(items))
