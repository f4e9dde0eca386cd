"""Model files: written once per version, read and checked once per process."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from spotgrad.errors import Malformed
from spotgrad.merging.kernel import Inputs, Tensors, follow, to_master
from spotgrad.ports import ObjectReader
from spotgrad.protocol.head import Head, ObjectRef
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.protocol.recipe import Recipe, base, client
from spotgrad.protocol.result import ModelMetadata, Role
from spotgrad.protocol.tensors import TensorFile, decode, digest, encode

CACHE_BYTES = 256_000_000
"""Of model files kept between steps; a single larger one is kept all the same."""


class ModelReader:
    """Reads each model file once, and keeps those used last: versions never change.

    A function stays warm between steps, and what it merges into next is what it has just written.
    """

    def __init__(self, store: ObjectReader, limit_bytes: int = CACHE_BYTES) -> None:
        self._store = store
        self._limit_bytes = limit_bytes
        self._bodies: dict[str, bytes] = {}
        self._files: dict[str, tuple[TensorFile, str]] = {}

    def read(self, key: str) -> TensorFile:
        """Return the model file; raises ``NotFound``, or ``Malformed`` when it is damaged."""
        return self._read(key)[0]

    def read_committed(self, reference: ObjectRef) -> TensorFile:
        """Return the model file that a head or ledger names.

        Raises:
            Malformed: its bytes are not those that were committed.
        """
        file, sha256 = self._read(reference.key)
        if sha256 != reference.sha256:
            raise Malformed(f"{reference.key}: its bytes are not those that were committed")
        return file

    def keep(self, key: str, body: bytes) -> str:
        """Take a file that was just written, so that it need not be read; return its digest."""
        sha256 = digest(body)
        self._files[key] = decode(body), sha256
        self._bodies[key] = body
        while sum(map(len, self._bodies.values())) > self._limit_bytes and len(self._bodies) > 1:
            oldest = next(iter(self._bodies))
            del self._bodies[oldest], self._files[oldest]
        return sha256

    def _read(self, key: str) -> tuple[TensorFile, str]:
        if key in self._files:
            self._bodies[key] = self._bodies.pop(key)  # the last to go
        else:
            self.keep(key, self._store.get(key).body)
        return self._files[key]


def model_body(
    made: Head | LedgerEntry, tensors: Mapping[str, NDArray[Any]], roles: Mapping[str, Role]
) -> bytes:
    """Return the file of the version that this head, or its ledger entry, makes.

    The header carries what staleness is counted from; it depends on nothing but the commit, so a
    replay gives the same bytes.
    """
    metadata = ModelMetadata(
        job=made.job,
        run=made.run,
        version=made.version or 0,
        commit=made.commit,
        results_merged=made.results_merged,
        roles=dict(roles),
    )
    return encode(tensors, metadata.to_header())


def first_bodies(
    made: Head | LedgerEntry,
    tensors: Mapping[str, NDArray[Any]],
    roles: Mapping[str, Role],
    names: Iterable[str],
) -> dict[str, bytes]:
    """Return the objects that the result of ``initialize`` becomes: the same copy for each name."""
    return dict.fromkeys(names, model_body(made, to_master(tensors), roles))


def merged_bodies(
    made: Head | LedgerEntry, recipe: Recipe, inputs: Inputs, roles: Mapping[str, Role]
) -> dict[str, bytes]:
    """Return the objects that this head, or its ledger entry, makes by ``recipe``, by name."""
    return {
        name: model_body(made, tensors, {one: roles[one] for one in tensors if one in roles})
        for name, tensors in follow(recipe, inputs, roles).items()
    }


def gather(
    recipe: Recipe,
    objects: Mapping[str, Tensors],
    clients: Sequence[Tensors],
    read_base: Callable[[int], Tensors],
) -> Inputs:
    """Return the recipe's inputs by name; a base version is read only if it is needed."""
    inputs = dict(objects) | {client(number): one for number, one in enumerate(clients)}
    for number in range(len(clients)):
        if recipe.needs_base(number):
            inputs[base(number)] = read_base(number)
    return inputs


def roles_of(file: TensorFile) -> dict[str, Role]:
    """Return what each tensor of a model file is; raises ``Malformed`` when it is none."""
    return ModelMetadata.from_header(file.metadata).roles
