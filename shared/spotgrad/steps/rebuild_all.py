"""Every object of a chain rebuilt from those before, and compared with what was committed.

Reads only. A commit whose inputs have expired, or are damaged, is bridged by its stored files, so
that one hole does not hide what comes after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from spotgrad.errors import Malformed, NotFound
from spotgrad.ports import ObjectReader
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.protocol.recipe import SERVER
from spotgrad.protocol.tensors import digest
from spotgrad.steps.rebuild import rebuild
from spotgrad.steps.shelf import Shelf


@dataclass
class Rebuilding:
    """How far it went: versions rebuilt, versions whose inputs are gone, what was found."""

    rebuilt: int = 0
    without_inputs: int = 0
    findings: list[str] = field(default_factory=list)


def rebuild_all(store: ObjectReader, entries: Sequence[LedgerEntry]) -> Rebuilding:
    """Rebuild what each of ``entries`` (in order of revision) wrote."""
    done = Rebuilding()
    shelf = Shelf(store, entries)
    newest = max((entry.version or 0 for entry in entries), default=0)
    for entry in entries:
        if entry.written:
            stored = _stored(store, entry, done)
            if SERVER in entry.written and SERVER not in stored and entry.version == newest:
                done.findings.append(f"{entry.made}: {entry.written[SERVER].key} is gone")
            shelf.put(entry, stored | _rebuilt(store, entry, shelf, done))
    return done


def _stored(store: ObjectReader, entry: LedgerEntry, done: Rebuilding) -> dict[str, bytes]:
    """Return those stored objects that are there and are what was committed."""
    found: dict[str, bytes] = {}
    for name, reference in entry.written.items():
        try:
            body = store.get(reference.key).body
        except NotFound:
            continue
        if digest(body) == reference.sha256:
            found[name] = body
        else:
            done.findings.append(f"{entry.made}: {reference.key} is not what was committed")
    return found


def _rebuilt(
    store: ObjectReader, entry: LedgerEntry, shelf: Shelf, done: Rebuilding
) -> dict[str, bytes]:
    """Return the objects made again that are what was committed."""
    counts = entry.server is not None
    try:
        bodies = rebuild(store, entry, shelf)
    except NotFound:
        done.without_inputs += counts
        return {}
    except Malformed as error:
        done.findings.append(f"{entry.made} cannot be rebuilt: {error}")
        return {}
    done.rebuilt += counts
    same = {
        name: bodies[name]
        for name, reference in entry.written.items()
        if name in bodies and digest(bodies[name]) == reference.sha256
    }
    if len(same) < len(entry.written):
        done.findings.append(f"{entry.made} is not the merge that its entry describes")
    return same
