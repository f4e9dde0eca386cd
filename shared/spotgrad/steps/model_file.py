"""Model files: written once per version, read and checked once per process."""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from spotgrad.errors import Malformed
from spotgrad.merging.coefficients import Coefficients
from spotgrad.merging.kernel import merge_tensors
from spotgrad.ports import ObjectReader
from spotgrad.protocol.head import Head, ObjectRef
from spotgrad.protocol.ledger import LedgerEntry
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


def merged_body(
    made: Head | LedgerEntry,
    start: TensorFile,
    clients: Sequence[Mapping[str, NDArray[Any]]],
    coefficients: Coefficients,
) -> bytes:
    """Return the file of the version that merges ``clients`` into ``start``.

    A frozen tensor is carried over untouched: blending equal values may still move the last bit.
    """
    roles = ModelMetadata.from_header(start.metadata).roles
    tensors = merge_tensors(start.tensors, clients, coefficients)
    frozen = {name: start.tensors[name] for name, role in roles.items() if role == "frozen"}
    return model_body(made, tensors | frozen, roles)
