"""From one head to the next: revision + 1, a new commit id, a ledger entry that names the last.

Pure. Invariant: a successor differs from its predecessor at least in ``revision`` and ``commit``.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from spotgrad.planning.standing import plain
from spotgrad.planning.stuck import landmarks
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import LedgerKey
from spotgrad.protocol.ledger import LedgerEntry


@dataclass(frozen=True)
class Successor:
    """A head that is ready to be committed, and the entry that says what it changed."""

    head: Head
    entry: LedgerEntry


def successor(before: Head, after: Head, *, commit: str, now: datetime, **facts: Any) -> Successor:
    """Return ``after`` as the next revision of ``before``, with its ledger entry.

    ``facts`` are fields of the entry: what was merged, refused and so on. What can be read off
    the two heads, burials, redrives and closed epochs, is recorded whoever commits.
    """
    revision = before.revision + 1
    ledger = LedgerKey(before.job, revision, commit).render()
    head = after.model_copy(
        update={"revision": revision, "commit": commit, "ledger": ledger, "updated_at": now}
    )
    if landmarks(before) != landmarks(after):
        head = _moved(head, before, now)
    still_open = {progress.epoch for progress in head.epochs}
    closed = tuple(one.epoch for one in before.epochs if one.epoch not in still_open)
    facts |= {
        "dead": tuple(grave for grave in head.dead if grave not in before.dead),
        "redriven": tuple(plain(grave) for grave in before.dead if grave not in head.dead),
    }
    entry = entry_for(head, previous=before.ledger, closed_epochs=closed, **facts)
    return Successor(head, entry)


def _moved(head: Head, before: Head, now: datetime) -> Head:
    """Return the head of a job that got on: why it stood still is no longer so."""
    stale = head.reason == before.reason and not head.ended
    return head.model_copy(update={"progressed_at": now, "reason": None if stale else head.reason})


def entry_for(head: Head, *, previous: str | None, **facts: Any) -> LedgerEntry:
    """Return the ledger entry of the commit that ``head`` is."""
    return LedgerEntry(
        job=head.job,
        run=head.run,
        revision=head.revision,
        commit=head.commit,
        previous=previous,
        at=head.updated_at,
        state=head.state,
        version=head.version,
        results_merged=head.results_merged,
        issued=head.outbox,
        **facts,
    )
