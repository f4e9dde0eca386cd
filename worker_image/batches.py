"""The columns of one shard as batches of tensors, in the manifest's order, seeded.

Nothing is transformed: scaling and augmentation are the task's. Integers become int64, which is
what losses and embeddings take; only uint8 data with axes of its own (images) stays as it is.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spotgrad.protocol.dataset import Column
from worker_image.state import to_torch

__all__ = ["Batch", "Rows", "in_order", "shuffled", "take", "to_columns"]

Batch = tuple[torch.Tensor, ...]
Rows = torch.Tensor
"""Which samples of the shard make up a batch."""


def to_columns(arrays: dict[str, NDArray[Any]], columns: Sequence[Column]) -> Batch:
    """Return the whole shard as one tensor per column."""
    return tuple(_to_tensor(arrays[column.name]) for column in columns)


def shuffled(samples: int, batch_size: int, generator: torch.Generator) -> list[Rows]:
    """Return batches that hold every sample once, in the order that ``generator`` draws."""
    order = torch.randperm(samples, generator=generator)
    return _without_a_last_one(_split(order, batch_size))


def in_order(samples: int, batch_size: int) -> list[Rows]:
    """Return batches that hold every sample once, in the shard's order; the last may be smaller."""
    return _split(torch.arange(samples), batch_size)


def take(data: Batch, rows: Rows) -> Batch:
    """Return these rows of every column."""
    return tuple(column[rows.to(column.device)] for column in data)


def _split(rows: Rows, size: int) -> list[Rows]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _without_a_last_one(chunks: list[torch.Tensor]) -> list[torch.Tensor]:
    """Join a last batch of one to the one before it: BatchNorm cannot train on one sample."""
    if len(chunks) > 1 and len(chunks[-1]) == 1 < len(chunks[-2]):
        chunks[-2:] = [torch.cat(chunks[-2:])]
    return chunks


def _to_tensor(array: NDArray[Any]) -> torch.Tensor:
    image = array.dtype == np.uint8 and array.ndim > 1
    if np.issubdtype(array.dtype, np.integer) and not image:
        return torch.from_numpy(array.astype(np.int64))
    return to_torch(array)
