"""Expire: delete what closed epochs left under ``results/``, ``attempts/`` and ``partial/``.

By the job's ``keep.results_days``; versions, ledger and head stay, so a replay goes on from the
stored version behind the gap. Invariant: nothing of an epoch that is open is touched, nor what
a dead subtask of a job that still runs is remembered by.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby, islice

from spotgrad.ports import ObjectInfo, ObjectReader, ObjectSweeper
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import (
    AttemptKey,
    PartialKey,
    ResultKey,
    attempts_prefix,
    partials_prefix,
    results_prefix,
)
from spotgrad.steps.documents import keyed

MOST_AT_ONCE = 1000
"""One visit deletes no more of a kind: a function has a minute, the next hour comes."""


def expire_results(store: ObjectSweeper, head: Head, results_days: int, now: datetime) -> int:
    """Delete what is older than ``results_days`` and of a closed epoch; return how many."""
    before = now - timedelta(days=results_days)
    evidence = set() if head.ended else {grave.evidence for grave in head.dead}
    deleted = 0
    for epochs in (
        _by_epoch(store, results_prefix(head.job), ResultKey),
        _by_epoch(store, attempts_prefix(head.job), AttemptKey),
        _by_epoch(store, partials_prefix(head.job), PartialKey),
    ):
        expired = (one for one in _expired(epochs, head, before) if one.key not in evidence)
        for info in list(islice(expired, MOST_AT_ONCE)):
            store.delete(info.key)
            deleted += 1
    return deleted


def has_results(store: ObjectReader, job: str) -> bool:
    """Return whether anything is left that will expire."""
    prefixes = (results_prefix(job), attempts_prefix(job), partials_prefix(job))
    return any(next(iter(store.list(prefix)), None) for prefix in prefixes)


Epoch = tuple[int, list[ObjectInfo]]


def _by_epoch(
    store: ObjectReader, prefix: str, form: type[ResultKey | AttemptKey | PartialKey]
) -> Iterator[Epoch]:
    """Yield each epoch's objects, the oldest epoch first; what is not asked for is not listed."""
    for epoch, rows in groupby(keyed(store, prefix, form), key=lambda row: row[1].epoch):
        yield epoch, [info for info, _ in rows]


def _expired(epochs: Iterator[Epoch], head: Head, before: datetime) -> Iterator[ObjectInfo]:
    """Yield what is too old, up to the first epoch in which nothing is."""
    groups = () if head.ended else (*head.epochs, *head.late, *head.evaluations)
    open_now = {one.epoch for one in groups}
    for epoch, infos in epochs:
        old = [one for one in infos if one.modified_at < before]
        if not old:
            return
        if epoch not in open_now:
            yield from old
