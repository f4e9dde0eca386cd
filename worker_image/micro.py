"""When the GPU's memory is too small for a batch: the same batch in smaller parts.

Not a smaller batch: gradients add up over the parts and the optimizer steps once, so the effective
batch is unchanged. (BatchNorm sees the parts, and dropout draws other masks: the arithmetic is the
same for tasks whose samples do not see each other.) Invariant: what fits is never split.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

import torch

from worker_image.batches import Rows

__all__ = ["MicroBatches"]

log = logging.getLogger(__name__)

Done = TypeVar("Done")


class MicroBatches:
    """Remembers, for one subtask, how many rows fit at once."""

    def __init__(self) -> None:
        self._most_rows: int | None = None

    def work(
        self, rows: Rows, work: Callable[[Rows], Done], forget: Callable[[], object]
    ) -> list[tuple[Rows, Done]]:
        """Work on all rows, in as few equal parts as fit; return each part and what came of it.

        ``forget`` is called before each try: it drops what the parts of a failed one left behind.

        Raises:
            torch.OutOfMemoryError: not even a single row fits.
        """
        while True:
            forget()
            parts = self._parts(rows)
            try:
                return [(part, work(part)) for part in parts]
            except torch.OutOfMemoryError as error:
                self._halve(len(parts[0]), error)
            # Beyond the except block: the error held the frames, and they held the memory.
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def _parts(self, rows: Rows) -> tuple[Rows, ...]:
        most = self._most_rows or len(rows)
        return rows.tensor_split(-(-len(rows) // most))

    def _halve(self, rows: int, error: torch.OutOfMemoryError) -> None:
        if rows <= 1:
            raise error
        self._most_rows = -(-rows // 2)
        log.warning("out of memory with %d samples at once: from now on %d", rows, self._most_rows)
