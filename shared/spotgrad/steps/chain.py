"""The ledger chain of a job, walked from its head back to revision 0. Reads, never judges."""

from collections.abc import Iterator

from spotgrad.errors import Malformed, NotFound
from spotgrad.ports import ObjectReader
from spotgrad.protocol.head import Head
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.steps.documents import find_head, read_document


def read_head(store: ObjectReader, job: str) -> Head:
    """Return the job's head.

    Raises:
        NotFound: there is no such job here.
    """
    present = find_head(store, job)
    if present is None:
        raise NotFound(f"there is no job {job!r} here; `spotgrad list` shows those there are")
    return present.head


def walk_back(store: ObjectReader, head: Head) -> Iterator[tuple[str, LedgerEntry]]:
    """Yield key and entry from the newest commit to the first.

    Raises:
        NotFound, Malformed: the chain is broken at the key that the message names.
    """
    key: str | None = head.ledger
    below = head.revision + 1
    while key is not None:
        entry = read_document(store, key, LedgerEntry)
        if entry.revision >= below:  # a forged chain must not send its reader in circles
            raise Malformed(f"{key}: revision {entry.revision} follows itself")
        yield key, entry
        key, below = entry.previous, entry.revision


def version_entries(store: ObjectReader, head: Head) -> list[LedgerEntry]:
    """Return the entries that made a version, version 0 first."""
    made = [entry for _, entry in walk_back(store, head) if entry.server is not None]
    return made[::-1]


def writing_entries(store: ObjectReader, head: Head) -> list[LedgerEntry]:
    """Return the entries that wrote any object, the first one first."""
    return [entry for _, entry in walk_back(store, head) if entry.written][::-1]
