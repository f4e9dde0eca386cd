"""Replay: rebuild a version from the ledger, bit for bit, from the first version on.

Where results have expired on the way, the stored version after them is the new start, and the
answer says so. Invariant: what is returned has been compared with what was committed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from spotgrad.errors import Malformed, NotFound
from spotgrad.ports import ObjectReader
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.protocol.recipe import SERVER
from spotgrad.protocol.tensors import digest
from spotgrad.steps.chain import read_head, writing_entries
from spotgrad.steps.rebuild import rebuild
from spotgrad.steps.shelf import Shelf


@dataclass(frozen=True)
class Rebuilt:
    """A version rebuilt: the file, and whether it is the one that was committed."""

    version: int
    body: bytes
    sha256: str
    committed_sha256: str
    from_version: int
    """The stored version that the replay started from; 0 means from ``initialize`` on."""
    results: int
    """How many results were merged again."""

    @property
    def same(self) -> bool:
        """Return whether the rebuilt bytes are the committed ones."""
        return self.sha256 == self.committed_sha256


def replay(store: ObjectReader, job: str, version: int) -> Rebuilt:
    """Rebuild ``version`` of ``job``.

    Raises:
        NotFound: no such job or version, or the inputs of this very version have expired.
        Malformed: an input is damaged, or the ledger names none.
    """
    entries = writing_entries(store, read_head(store, job))
    made = [entry for entry in entries if entry.server is not None]
    if not 0 <= version < len(made):
        has = f"the latest is {len(made) - 1}" if made else "it has none yet"
        raise NotFound(f"job {job}: there is no version {version}; {has}")
    wanted = made[version]
    walk = _Walk(store, [one for one in entries if one.revision <= wanted.revision])
    body = walk.body_of(wanted)
    committed = wanted.written[SERVER].sha256
    return Rebuilt(version, body, digest(body), committed, walk.from_version, walk.results)


class _Walk:
    """The way from the first entry, or from a stored version behind a gap, to the wanted one."""

    def __init__(self, store: ObjectReader, entries: Sequence[LedgerEntry]) -> None:
        self.from_version = self.results = 0
        self._store = store
        self._entries = entries
        self._shelf = Shelf(store, entries)

    def body_of(self, wanted: LedgerEntry) -> bytes:
        """Return the server copy that ``wanted``, the last entry, made."""
        for entry in self._entries:
            bodies = self._bodies(entry, wanted)
            self._shelf.put(entry, bodies)
        return bodies[SERVER]

    def _bodies(self, entry: LedgerEntry, wanted: LedgerEntry) -> dict[str, bytes]:
        try:
            bodies = rebuild(self._store, entry, self._shelf)
        except NotFound:
            if entry is wanted:
                raise
            stored = _stored(self._store, entry)
            if SERVER in stored:
                self.from_version, self.results = entry.version or 0, 0
            return stored
        self.results += len(entry.merged)
        return bodies


def _stored(store: ObjectReader, entry: LedgerEntry) -> dict[str, bytes]:
    """Return what is stored of an entry's objects; for what has expired a later one must do."""
    found: dict[str, bytes] = {}
    for name, reference in entry.written.items():
        try:
            body = store.get(reference.key).body
        except NotFound:
            continue
        if digest(body) != reference.sha256:
            raise Malformed(f"{entry.made}: its stored bytes are not those committed")
        found[name] = body
    return found
