"""Expire versions: delete the objects of versions that the job does not keep (``keep.versions``).

The last so many stay, and whatever is in use: what the head names (the rule's momentum and the like
are older than the version they serve), what an open epoch or evaluation began from, and what any
attempt at an open subtask began from, since its result may still come. Ledger and results stay
under their own terms; a replay says what it cannot rebuild. Only ``reconcile`` deletes. Invariant:
nobody can begin from a version that is deleted: it was superseded over an hour before.
"""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Literal

from spotgrad.planning.standing import open_items
from spotgrad.ports import ObjectInfo, ObjectSweeper
from spotgrad.protocol.head import EpochProgress, Head
from spotgrad.protocol.keys import AttemptKey, ModelKey, attempts_prefix, models_prefix
from spotgrad.protocol.subtask import ModelRef
from spotgrad.steps.attempt_reader import AttemptReader
from spotgrad.steps.documents import keyed
from spotgrad.steps.expire_results import MOST_AT_ONCE
from spotgrad.steps.sweep_orphans import GRACE


def expire_versions(
    store: ObjectSweeper,
    attempts: AttemptReader,
    head: Head,
    keep: int | Literal["all"],
    now: datetime,
) -> int:
    """Delete what is older than the last ``keep`` versions and not in use; return how many."""
    if keep == "all" or head.version is None or head.version < keep:
        return 0
    kept_from = head.version - keep + 1
    rows = list(keyed(store, models_prefix(head.job), ModelKey))
    made_at: dict[int, datetime] = {}
    for info, key in rows:
        made_at[key.version] = max(info.modified_at, made_at.get(key.version, info.modified_at))
    old = [
        (info, key)
        for info, key in rows
        if key.version < kept_from and _is_long_past(key.version, made_at, now)
    ]
    if not old:
        return 0  # the usual case: the attempts need not be read
    in_use, named = _in_use(store, attempts, head), {one.key for one in head.objects.values()}
    expired: Iterator[ObjectInfo] = (
        info for info, key in old if key.version not in in_use and info.key not in named
    )
    deleted = list(islice(expired, MOST_AT_ONCE))
    for info in deleted:
        store.delete(info.key)
    return len(deleted)


def _is_long_past(version: int, made_at: dict[int, datetime], now: datetime) -> bool:
    """Return whether the next version is over an hour old, or has itself expired."""
    superseded_at = made_at.get(version + 1)
    return superseded_at is None or now - superseded_at > GRACE


def _in_use(store: ObjectSweeper, attempts: AttemptReader, head: Head) -> set[int]:
    """Return the numbers of the versions that somebody may still ask for."""
    groups = () if head.ended else (*head.epochs, *head.late)
    models: list[ModelRef | None] = [head.model, head.final]
    models += [one.start for one in groups if isinstance(one, EpochProgress)]
    models += [one.model for one in head.evaluations]
    models += [grave.model for grave in head.dead]
    used = {one.version for one in models if one is not None}
    open_now = {(item.epoch, item.subtask) for item in open_items(head)}
    for epoch in sorted({epoch for epoch, _ in open_now}):
        for info, key in keyed(store, attempts_prefix(head.job, epoch), AttemptKey):
            attempt = attempts.read(info, head) if (key.epoch, key.subtask) in open_now else None
            if attempt is not None and attempt.base is not None:
                used.add(attempt.base.version)
    return used
