"""Replay: rebuild a version from the ledger, bit for bit, from the first version on.

Where results have expired on the way, the stored version after them is the new start, and the
answer says so. Invariant: what is returned has been compared with what was committed.
"""

from dataclasses import dataclass

from spotgrad.errors import Malformed, NotFound
from spotgrad.ports import ObjectReader
from spotgrad.protocol.head import ObjectRef
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.protocol.tensors import decode, digest
from spotgrad.steps.chain import read_head, version_entries
from spotgrad.steps.rebuild import rebuild


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
    made = [
        (entry, entry.server)
        for entry in version_entries(store, read_head(store, job))
        if entry.server is not None
    ]
    if not 0 <= version < len(made):
        has = f"the latest is {len(made) - 1}" if made else "it has none yet"
        raise NotFound(f"job {job}: there is no version {version}; {has}")
    body: bytes | None = None
    from_version = 0
    for number, (entry, server) in enumerate(made[: version + 1]):
        try:
            body = rebuild(store, entry, decode(body) if body else None)
        except NotFound:
            if number == version:
                raise
            body, from_version = _stored(store, entry, server), number
    body = body or b""
    entries = [entry for entry, _ in made[from_version + 1 : version + 1]]
    results = sum(len(entry.merged) for entry in entries)
    return Rebuilt(version, body, digest(body), made[version][1].sha256, from_version, results)


def _stored(store: ObjectReader, entry: LedgerEntry, server: ObjectRef) -> bytes | None:
    """Return the stored version; None when it has expired, so that a later one must do."""
    try:
        body = store.get(server.key).body
    except NotFound:
        return None
    if digest(body) != server.sha256:
        raise Malformed(f"version {entry.version}: its stored bytes are not those committed")
    return body
