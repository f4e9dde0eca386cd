"""The seed of a subtask: the same on every worker and in every attempt.

The one place that touches global generators, because the user's code may draw from any of them.
"""

import hashlib
import random

import numpy as np
import torch

__all__ = ["seed_everything", "subtask_seed"]


def subtask_seed(seed: int, job: str, epoch: int, shard: int, version: int) -> int:
    """Return 64 bits that depend on nothing but these five."""
    text = f"{seed}/{job}/{epoch}/{shard}/{version}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def seed_everything(seed: int) -> torch.Generator:
    """Seed torch, numpy and ``random``, and return a generator of its own for the shuffling."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - user code may draw from the global generator
    random.seed(seed)
    return torch.Generator().manual_seed(seed)
