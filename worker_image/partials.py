"""Which partial the next attempt goes on from: the furthest that fits, or none.

Reads alone. Invariant: a partial that is damaged, or of another run, subtask or code, or whose base
version is gone, is never used, and never in the way; nor is one that an attempt which came to
nothing may have gone on from, since it may be what was wrong with it.
"""

import logging
from collections.abc import Collection
from datetime import datetime

from spotgrad.errors import Malformed, NotFound
from spotgrad.ports import ObjectReader
from spotgrad.protocol.keys import ModelKey, ResultKey, partials_prefix
from spotgrad.protocol.partial import Partial, PartialMetadata, read_partial
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.subtask import Subtask

__all__ = ["furthest"]

log = logging.getLogger(__name__)


def furthest(
    store: ObjectReader, plan: JobPlan, subtask: Subtask, mishaps: Collection[str] = ()
) -> Partial | None:
    """Return the partial of this subtask that came furthest, if there is one to go on from.

    ``mishaps``: the attempts at it that raised or were refused. A bad machine may have saved
    numbers that are wrong: going on from them would fail again each time until the subtask is dead.
    """
    best: Partial | None = None
    doubted_until = _last_mishap(store, subtask, mishaps)
    for info in store.list(partials_prefix(subtask.job, subtask.epoch, subtask.subtask)):
        if doubted_until is not None and info.modified_at <= doubted_until:
            log.info("partial %s: not used: an attempt after it came to nothing", info.key)
            continue
        partial = _read(store, info.key)
        if partial is None or not _fits(partial.metadata, plan, subtask):
            continue
        further = best is None or best.metadata.position.order < partial.metadata.position.order
        if further and _has_base(store, partial.metadata):
            best = partial
    return best


def _last_mishap(
    store: ObjectReader, subtask: Subtask, mishaps: Collection[str]
) -> datetime | None:
    """Return when the last of these attempts uploaded its result, by the store's clock."""
    keys = {
        ResultKey(subtask.job, subtask.epoch, subtask.subtask, attempt).render()
        for attempt in mishaps
    }
    infos = (info for key in sorted(keys) for info in store.list(key))
    return max((info.modified_at for info in infos if info.key in keys), default=None)


def _read(store: ObjectReader, key: str) -> Partial | None:
    try:
        return read_partial(store.get(key).body)
    except (Malformed, NotFound) as error:
        log.warning("partial %s: not used: %s", key, error)
        return None


def _fits(metadata: PartialMetadata, plan: JobPlan, subtask: Subtask) -> bool:
    found = (metadata.job, metadata.run, metadata.epoch, metadata.subtask)
    code = None if plan.code is None else plan.code.sha256
    wanted = (subtask.job, plan.run, subtask.epoch, subtask.subtask)
    return found == wanted and metadata.code_sha256 == code


def _has_base(store: ObjectReader, metadata: PartialMetadata) -> bool:
    key = ModelKey(metadata.job, metadata.base.version, metadata.base.commit).render()
    if any(info.key == key for info in store.list(key)):
        return True
    log.warning("partial of attempt %s: not used: its base %s is gone", metadata.attempt, key)
    return False
