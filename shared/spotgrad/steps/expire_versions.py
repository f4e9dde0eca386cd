"""Expire: delete the objects of versions beyond the newest ``keep.versions``, except those in use.

Not results (``expire_results``), nor what no commit names (``sweep_orphans``). In use: what the
head names (objects, final, evaluated, being evaluated, where an epoch starts, what a dead
evaluation was of, what a check begins from) and what any attempt at an open subtask began from,
since its result may still come. A version goes an hour after it left the newest: nobody then holds
an older head and has not said so in an attempt record. Invariant: what a merge, an evaluation or a
worker may ask for stays.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

from spotgrad.planning.standing import open_items
from spotgrad.ports import ObjectInfo, ObjectSweeper
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import AttemptKey, ModelKey, attempts_prefix, models_prefix
from spotgrad.protocol.result import Base
from spotgrad.protocol.subtask import ModelRef
from spotgrad.steps.attempt_reader import AttemptReader
from spotgrad.steps.documents import keyed
from spotgrad.steps.sweep_orphans import GRACE

MOST_AT_ONCE = 1000
"""One visit deletes no more: a function has a minute, the next hour comes."""

Objects = Mapping[int, Sequence[tuple[ObjectInfo, ModelKey]]]
Named = tuple[int, str]
"""A version and its commit: an orphan of the same number is another one."""


def expire_versions(
    store: ObjectSweeper, attempts: AttemptReader, head: Head, newest: int, now: datetime
) -> int:
    """Delete what is older than the ``newest`` versions and not in use; return how many objects."""
    if head.version is None or head.version < newest:
        return 0
    found: dict[int, list[tuple[ObjectInfo, ModelKey]]] = defaultdict(list)
    for info, key in keyed(store, models_prefix(head.job), ModelKey):
        found[key.version].append((info, key))
    beyond = _settled(found, head.version, now) - newest
    if beyond < min(found, default=0):
        return 0  # the usual case: attempts need not be read
    used = set(_named_by_head(head)) | set(_begun_from(store, attempts, head))
    expired = list(islice(_expired(found, beyond, head, used), MOST_AT_ONCE))
    for one in expired:
        store.delete(one)
    return len(expired)


def _settled(found: Objects, latest: int, now: datetime) -> int:
    """Return the newest version that has been there, with all its objects, for over an hour."""
    return max(
        (
            version
            for version, rows in found.items()
            if version <= latest and all(now - info.modified_at > GRACE for info, _ in rows)
        ),
        default=-1,
    )


def _expired(found: Objects, beyond: int, head: Head, used: set[Named]) -> Iterator[str]:
    current = {one.key for one in head.objects.values()}
    for version in sorted(found):
        for info, key in found[version] if version <= beyond else ():
            if (version, key.commit) not in used and info.key not in current:
                yield info.key


def _named_by_head(head: Head) -> Iterator[Named]:
    starts = [one.start for one in (*head.epochs, *head.late)]
    evaluated = [one.model for one in head.evaluated]
    evaluations = [one.model for one in head.evaluations]
    graves = [one.model for one in head.dead]
    checks = [one.model for one in head.checks]
    for one in (head.model, head.final, *starts, *evaluated, *evaluations, *graves, *checks):
        if one is not None:
            yield _name(one)


def _begun_from(store: ObjectSweeper, attempts: AttemptReader, head: Head) -> Iterator[Named]:
    open_now = {(item.epoch, item.subtask) for item in open_items(head)}
    for epoch in sorted({epoch for epoch, _ in open_now}):
        for info, key in keyed(store, attempts_prefix(head.job, epoch), AttemptKey):
            if (key.epoch, key.subtask) in open_now:
                attempt = attempts.read(info, head)
                if attempt is not None and attempt.base is not None:
                    yield _name(attempt.base)


def _name(one: ModelRef | Base) -> Named:
    return one.version, one.commit
