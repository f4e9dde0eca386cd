"""Identifiers that a test can predict."""

import itertools
import threading


class FakeIds:
    """The port ``NewId``: 16 hexadecimal digits, counted up from ``first``."""

    def __init__(self, first: int = 1) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(first)

    def __call__(self) -> str:
        with self._lock:
            return f"{next(self._numbers):016x}"
