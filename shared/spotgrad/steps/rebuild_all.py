"""Every version of a chain rebuilt from the one before, and compared with what was committed.

Reads only. A version whose inputs have expired, or are damaged, is bridged by its stored file, so
that one hole does not hide what comes after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from spotgrad.errors import Malformed, NotFound
from spotgrad.ports import ObjectReader
from spotgrad.protocol.head import ObjectRef
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.protocol.tensors import TensorFile, decode, digest
from spotgrad.steps.rebuild import rebuild


@dataclass
class Rebuilding:
    """How far it went: versions rebuilt, versions whose inputs are gone, what was found."""

    rebuilt: int = 0
    without_inputs: int = 0
    findings: list[str] = field(default_factory=list)


def rebuild_all(store: ObjectReader, entries: Sequence[LedgerEntry]) -> Rebuilding:
    """Rebuild each version that ``entries`` (in order of revision) made."""
    done = Rebuilding()
    start: TensorFile | None = None
    newest = max((entry.version or 0 for entry in entries), default=0)
    for entry in entries:
        if entry.server is not None:
            stored = _stored(store, entry, entry.server, done)
            if stored is None and entry.version == newest:
                done.findings.append(f"version {entry.version}: {entry.server.key} is gone")
            body = _rebuilt(store, entry, start, done) or stored
            start = None if body is None else decode(body)
    return done


def _stored(
    store: ObjectReader, entry: LedgerEntry, server: ObjectRef, done: Rebuilding
) -> bytes | None:
    """Return the stored version when it is there and is what was committed."""
    try:
        body = store.get(server.key).body
    except NotFound:
        return None
    if digest(body) == server.sha256:
        return body
    done.findings.append(f"version {entry.version}: {server.key} is not what was committed")
    return None


def _rebuilt(
    store: ObjectReader, entry: LedgerEntry, start: TensorFile | None, done: Rebuilding
) -> bytes | None:
    """Return the version made again when it is what was committed."""
    try:
        body = rebuild(store, entry, start)
    except NotFound:
        done.without_inputs += 1
        return None
    except Malformed as error:
        done.findings.append(f"version {entry.version} cannot be rebuilt: {error}")
        return None
    done.rebuilt += 1
    if entry.server is not None and digest(body) == entry.server.sha256:
        return body
    done.findings.append(f"version {entry.version} is not the merge that its entry describes")
    return None
