"""Sweep: delete what lost commits left behind: once an hour, and when their job has ended.

A model file or ledger entry whose commit is not in the chain is an orphan: its writer lost the
race for the head, or died before it. Nobody but ``reconcile`` deletes. Invariant: what the chain
names is never touched, and a chain that cannot be read as far as its suspects names everything.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from typing import NamedTuple

from spotgrad.errors import Malformed, NotFound
from spotgrad.ports import ObjectSweeper
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import LedgerKey, ModelKey, ledger_prefix, models_prefix
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.steps.chain import walk_back
from spotgrad.steps.documents import keyed

GRACE = timedelta(hours=1)
"""A function lives 15 minutes at most: what is older than this, no writer comes back for."""


def sweep_orphans(store: ObjectSweeper, head: Head, now: datetime) -> int:
    """Delete the orphans of ``head``'s job that are over an hour old; return how many."""
    suspects = list(_suspects(store, head, now))
    if not suspects:
        return 0  # the usual case: the chain need not be read
    try:
        committed = _committed(store, head, suspects)
    except (NotFound, Malformed):
        return 0
    orphans = [one.key for one in suspects if one.commit not in committed]
    for key in orphans:
        store.delete(key)
    return len(orphans)


class _Suspect(NamedTuple):
    kind: str
    number: int
    key: str
    commit: str


def _committed(store: ObjectSweeper, head: Head, suspects: Sequence[_Suspect]) -> set[str]:
    """Return the commits of the chain, as far back as the oldest suspect's number."""
    oldest = {"version": head.version or 0, "revision": head.revision}
    for one in suspects:
        oldest[one.kind] = min(oldest[one.kind], one.number)

    def matters(entry: LedgerEntry) -> bool:
        version = -1 if entry.version is None else entry.version
        return entry.revision >= oldest["revision"] or version >= oldest["version"]

    chain = (entry for _, entry in walk_back(store, head))
    return {entry.commit for entry in takewhile(matters, chain)}  # numbers only fall on the way


def _suspects(store: ObjectSweeper, head: Head, now: datetime) -> Iterator[_Suspect]:
    """Yield what shares its number with another commit, or is beyond the head."""
    found: dict[tuple[str, int], list[tuple[str, str, datetime]]] = defaultdict(list)
    for info, model in keyed(store, models_prefix(head.job), ModelKey):
        found["version", model.version].append((info.key, model.commit, info.modified_at))
    for info, entry in keyed(store, ledger_prefix(head.job), LedgerKey):
        found["revision", entry.revision].append((info.key, entry.commit, info.modified_at))
    newest = {"version": -1 if head.version is None else head.version, "revision": head.revision}
    for (kind, number), rows in found.items():
        if number > newest[kind] or len({commit for _, commit, _ in rows}) > 1:
            for key, commit, at in rows:
                if now - at > GRACE:
                    yield _Suspect(kind, number, key, commit)
