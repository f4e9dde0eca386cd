"""The order in which an epoch's subtasks go out: a permutation fixed by seed, epoch and count.

No random number generator: sorting by a digest gives the same order on every machine, for ever.
"""

from functools import lru_cache
from hashlib import sha256


@lru_cache(maxsize=8)
def shard_order(seed: int, epoch: int, shards: int) -> tuple[int, ...]:
    """Return a permutation of ``range(shards)``."""

    def rank(shard: int) -> bytes:
        return sha256(f"{seed}/{epoch}/{shard}".encode()).digest()

    return tuple(sorted(range(shards), key=rank))
