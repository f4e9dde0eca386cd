"""What a rebuilding has at hand: the objects as the last commit left them, and older versions.

An older version is wanted where subtasks began from it and the rule uses that; it is kept until no
entry needs it any more, so that it may have expired from the store. Reads only.
"""

from collections.abc import Mapping, Sequence

from spotgrad.errors import Malformed
from spotgrad.ports import ObjectReader
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.protocol.recipe import SERVER
from spotgrad.protocol.tensors import TensorFile, decode, digest


class Shelf:
    """Objects by name, and versions by key; ``entries`` are those that will be rebuilt."""

    def __init__(self, store: ObjectReader, entries: Sequence[LedgerEntry]) -> None:
        self.current: dict[str, TensorFile | None] = {}
        self._store = store
        self._committed = {one.server.key: one.server.sha256 for one in entries if one.server}
        self._last_use = {key: one.revision for one in entries for key in one.base_keys}
        self._versions: dict[str, TensorFile] = {}

    def put(self, entry: LedgerEntry, bodies: Mapping[str, bytes]) -> None:
        """Take what ``entry`` wrote; an object that is not among ``bodies`` is lost."""
        for name in entry.written:
            self.current[name] = decode(bodies[name]) if name in bodies else None
        for name in () if entry.recipe is None else entry.recipe.drops:
            self.current.pop(name, None)
        server = self.current.get(SERVER)
        if entry.server is not None and server is not None:
            self._versions[entry.server.key] = server
        wanted = {key for key, revision in self._last_use.items() if revision > entry.revision}
        self._versions = {key: one for key, one in self._versions.items() if key in wanted}

    def version(self, key: str) -> TensorFile:
        """Return the version at ``key``.

        Raises:
            NotFound: it has expired, and was not rebuilt.
            Malformed: its bytes are not those that were committed.
        """
        if key in self._versions:
            return self._versions[key]
        body = self._store.get(key).body
        if digest(body) != self._committed.get(key):
            raise Malformed(f"{key}: its bytes are not those that were committed")
        return decode(body)
