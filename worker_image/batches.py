"""The columns of one shard as batches of tensors, in the manifest's order, seeded.

Nothing is transformed: scaling and augmentation are the task's. Integers become int64, which is
what losses and embeddings take; only uint8 data with axes of its own (images) stays as it is.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spotgrad.protocol.dataset import Column
from worker_image.state import to_torch

__all__ = ["Batch", "in_order", "shuffled", "to_columns"]

Batch = tuple[torch.Tensor, ...]


def to_columns(arrays: dict[str, NDArray[Any]], columns: Sequence[Column]) -> Batch:
    """Return the whole shard as one tensor per column."""
    return tuple(_to_tensor(arrays[column.name]) for column in columns)


def shuffled(data: Batch, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
    """Yield every sample once, in the order that ``generator`` draws."""
    order = torch.randperm(len(data[0]), generator=generator)
    chunks = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    for rows in _without_a_last_one(chunks):
        yield tuple(column[rows] for column in data)


def in_order(data: Batch, batch_size: int) -> Iterator[Batch]:
    """Yield every sample once, as the shard has them; the last batch may be smaller."""
    for start in range(0, len(data[0]), batch_size):
        yield tuple(column[start : start + batch_size] for column in data)


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
