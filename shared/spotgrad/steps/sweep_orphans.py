"""Sweep: delete what lost commits left behind, once their job has ended.

A model file or ledger entry whose commit is not in the chain is an orphan: its writer lost the
race for the head, or died before it. Nobody but ``reconcile`` deletes. Invariant: what the chain
names is never touched, and a chain that cannot be read to its beginning names everything.
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from spotgrad.errors import Malformed, NotFound
from spotgrad.ports import ObjectSweeper
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import LedgerKey, ModelKey, ledger_prefix, models_prefix
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
        committed = {entry.commit for _, entry in walk_back(store, head)}
    except (NotFound, Malformed):
        return 0
    orphans = [key for key, commit in suspects if commit not in committed]
    for key in orphans:
        store.delete(key)
    return len(orphans)


def _suspects(store: ObjectSweeper, head: Head, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield key and commit of what shares its number with another commit, or is beyond the head."""
    found: dict[tuple[str, int], list[tuple[str, str, datetime]]] = defaultdict(list)
    for info, model in keyed(store, models_prefix(head.job), ModelKey):
        found["version", model.version].append((info.key, model.commit, info.modified_at))
    for info, entry in keyed(store, ledger_prefix(head.job), LedgerKey):
        found["revision", entry.revision].append((info.key, entry.commit, info.modified_at))
    newest = {"version": -1 if head.version is None else head.version, "revision": head.revision}
    for (kind, number), rows in found.items():
        if number > newest[kind] or len({commit for _, commit, _ in rows}) > 1:
            yield from ((key, commit) for key, commit, at in rows if now - at > GRACE)
