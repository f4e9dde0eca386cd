"""How a received batch reaches its function: once, or disturbed as a test or chaos wishes.

A ``Delivery`` turns one batch into the batches that are handed over, in order. SQS promises
at-least-once delivery in any order, so every arrangement that drops nothing is a legal one.
"""

import itertools
from collections.abc import Callable, Sequence

from infra.local.records import Record

Delivery = Callable[[Sequence[Record]], Sequence[Sequence[Record]]]


def once(batch: Sequence[Record]) -> Sequence[Sequence[Record]]:
    """Hand the batch over as it came."""
    return [batch]


class DuplicateEvery:
    """Hands every n-th message over a second time, in an invocation of its own."""

    def __init__(self, n: int) -> None:
        if n < 1:
            raise ValueError(f"duplicate every {n}th message: must be 1 or more")
        self._n = n
        self._numbers = itertools.count(1)  # next() is atomic: all pollers may share one

    def __call__(self, batch: Sequence[Record]) -> Sequence[Sequence[Record]]:
        """Return the batch, and after it the batch of duplicates if there are any."""
        again = [record for record in batch if next(self._numbers) % self._n == 0]
        return [batch, again] if again else [batch]
