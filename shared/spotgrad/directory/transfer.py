"""Copy one store into another: how ``local run`` writes a bucket out and loads it back.

Both must be at rest: a copy taken while a job commits may hold a head without its model. What only
the target has stays there. ``modified_at`` is not carried over: the target's clock writes it.
"""

from concurrent.futures import ThreadPoolExecutor

from spotgrad.ports import ObjectReader, ObjectStore

__all__ = ["copy_all"]

THREADS = 4
"""Objects in flight, each held in memory whole; a server on loopback gains nothing from more."""


def copy_all(source: ObjectReader, target: ObjectStore, prefix: str = "") -> int:
    """Copy every object of ``source`` whose key starts with ``prefix``; return how many.

    Raises:
        NotFound: an object was deleted meanwhile: the source was not at rest.
    """

    def copy(key: str) -> None:
        target.put(key, source.get(key).body)

    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        return len(list(pool.map(copy, [info.key for info in source.list(prefix)])))
