"""What one commit wrote, from its ledger entry: the recorded recipe and the recorded inputs.

No merge rule is consulted. Bit for bit what the aggregator wrote, since both use the one kernel
and the files depend on nothing but the commit.
"""

from collections.abc import Mapping

from spotgrad.errors import Malformed, NotFound
from spotgrad.merging.kernel import Tensors
from spotgrad.ports import ObjectReader
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.protocol.recipe import SERVER
from spotgrad.protocol.result import Initialized, ResultMetadata
from spotgrad.protocol.tensors import TensorFile, decode, digest
from spotgrad.steps.model_file import first_bodies, gather, merged_bodies, roles_of
from spotgrad.steps.shelf import Shelf


def rebuild(store: ObjectReader, entry: LedgerEntry, shelf: Shelf) -> dict[str, bytes]:
    """Return the objects that ``entry`` made, by name, out of what stands on the shelf.

    Raises:
        NotFound: an input is not retained any more.
        Malformed: an input's bytes are not those that were merged.
    """
    if entry.initialized_from is not None:
        return _first(store, entry, entry.initialized_from.key)
    recipe = entry.followed
    if recipe is None:
        raise Malformed(f"ledger entry {entry.revision}: it merges nothing, yet names a version")
    objects = _objects(entry, shelf)
    clients = [_checked(store, row.key, row.sha256).tensors for row in entry.merged]
    inputs = gather(
        recipe,
        {name: file.tensors for name, file in objects.items()},
        clients,
        lambda number: _base(entry, number, shelf),
    )
    return merged_bodies(entry, recipe, inputs, roles_of(objects[SERVER]))


def _first(store: ObjectReader, entry: LedgerEntry, key: str) -> dict[str, bytes]:
    file = decode(store.get(key).body)
    outcome = ResultMetadata.from_header(file.metadata).outcome
    if not isinstance(outcome, Initialized):
        raise Malformed(f"{key}: it is no result of initialize")
    return first_bodies(entry, file.tensors, outcome.roles, entry.written)


def _objects(entry: LedgerEntry, shelf: Shelf) -> Mapping[str, TensorFile]:
    found = {}
    for name in (SERVER, *entry.objects_before):
        file = shelf.current.get(name)
        if file is None:
            what = "version" if name == SERVER else name
            raise NotFound(f"{entry.made}: the {what} before it is not retained")
        found[name] = file
    return found


def _base(entry: LedgerEntry, number: int, shelf: Shelf) -> Tensors:
    return shelf.version(entry.base_key(number)).tensors


def _checked(store: ObjectReader, key: str, sha256: str) -> TensorFile:
    body = store.get(key).body
    if digest(body) != sha256:
        raise Malformed(f"{key}: its bytes are not those that were merged")
    return decode(body)
