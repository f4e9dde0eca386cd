"""What may end a subtask between two batches, and where it was when it ended."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

__all__ = ["Watch"]

Item = TypeVar("Item")


class Watch:
    """Calls ``check`` after every batch; whatever that raises aborts the subtask."""

    def __init__(self, check: Callable[[], None]) -> None:
        self.batch_idx: int | None = None
        self.check = check

    def over(self, batches: Iterable[Item]) -> Iterator[tuple[int, Item]]:
        """Yield each batch with its index; ``batch_idx`` is the one at hand, or the last."""
        for index, batch in enumerate(batches):
            self.batch_idx = index
            yield index, batch
            self.check()
