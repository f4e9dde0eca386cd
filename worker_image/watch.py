"""What may end a subtask between two batches, and where it was when it ended."""

from collections.abc import Callable, Iterator, Sequence

from worker_image.batches import Rows
from worker_image.snapshot import Snapshot

__all__ = ["Watch"]


class Watch:
    """Calls ``check`` after every batch; whatever that raises aborts the subtask.

    Attributes:
        batch_idx: the batch at hand, or the last.
        rows: its samples, by row of the shard.
        shard: the shard's key.
        worked: batches done in this attempt.
        left: batches still to do in all passes; nothing while that is unknown.
        snapshot: takes the state between two batches, if this kind of work has any.
        enough: whether what was done may do, though batches are left.
    """

    def __init__(
        self, check: Callable[[], None], elapsed_seconds: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.check = check
        self.elapsed_seconds = elapsed_seconds
        self.enough: Callable[[], bool] = lambda: False
        self.batch_idx: int | None = None
        self.rows: Rows | None = None
        self.shard: str | None = None
        self.worked = 0
        self.left: int | None = None
        self.snapshot: Callable[[], Snapshot] | None = None

    def over(self, batches: Sequence[Rows], *, passed: int = 0) -> Iterator[tuple[int, Rows]]:
        """Yield each batch with its index, but the first ``passed``, which are done already."""
        for index, rows in enumerate(batches[passed:], passed):
            self.batch_idx, self.rows = index, rows
            yield index, rows
            self.worked += 1
            if self.left is not None:
                self.left = 0 if self.enough() else self.left - 1
            self.check()
            if self.left == 0:
                return
