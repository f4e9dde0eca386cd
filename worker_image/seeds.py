"""The seed of a subtask: the same on every worker and in every attempt.

The one place that touches global generators, because the user's code may draw from any of them.
"""

import hashlib
import random
from typing import Any

import numpy as np
import torch

__all__ = ["random_states", "restore_random_states", "seed_everything", "subtask_seed"]


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


def random_states() -> dict[str, Any]:
    """Return where all global generators are, as numbers and tensors."""
    version, key, gauss = random.getstate()
    numpy_state: dict[str, Any] = np.random.get_state(legacy=False)  # noqa: NPY002 - as seeded above
    twister = numpy_state["state"]
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": {**numpy_state, "state": {**twister, "key": _tensor(twister["key"])}},
        "python": {"version": version, "key": _tensor(key), "gauss": gauss},
    }


def restore_random_states(states: dict[str, Any]) -> None:
    """Put all global generators where ``random_states`` found them; GPUs that are gone are not."""
    torch.set_rng_state(states["torch"])
    if torch.cuda.is_available():
        for device, state in enumerate(states["cuda"][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(state, device)
    twister = states["numpy"]["state"]
    key = twister["key"].numpy().astype(np.uint32)
    np.random.set_state({**states["numpy"], "state": {**twister, "key": key}})  # noqa: NPY002 - as seeded above
    python = states["python"]
    random.setstate((python["version"], tuple(python["key"].tolist()), python["gauss"]))


def _tensor(words: Any) -> torch.Tensor:
    return torch.tensor([int(word) for word in words], dtype=torch.int64)
