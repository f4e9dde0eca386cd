"""One version from its ledger entry: the recorded coefficients applied to the recorded inputs.

No merge rule is consulted. Bit for bit what the aggregator wrote, since both use the one kernel
and the model file depends on nothing but the commit.
"""

from spotgrad.errors import Malformed, NotFound
from spotgrad.merging.coefficients import Coefficients
from spotgrad.merging.kernel import to_master
from spotgrad.ports import ObjectReader
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.protocol.result import Initialized, ResultMetadata
from spotgrad.protocol.tensors import TensorFile, decode, digest
from spotgrad.steps.model_file import merged_body, model_body


def rebuild(store: ObjectReader, entry: LedgerEntry, start: TensorFile | None) -> bytes:
    """Return the file of the version that ``entry`` made out of ``start``, the version before.

    Raises:
        NotFound: an input is not retained any more.
        Malformed: an input's bytes are not those that were merged.
    """
    if entry.initialized_from is not None:
        return _first(store, entry, entry.initialized_from.key)
    if entry.server_coefficient is None:
        raise Malformed(f"ledger entry {entry.revision}: it merges nothing, yet names a version")
    if start is None:
        raise NotFound(f"version {entry.version}: the version before it is not retained")
    clients = [_checked(store, row.key, row.sha256).tensors for row in entry.merged]
    coefficients = Coefficients(
        entry.server_coefficient, tuple(row.coefficient for row in entry.merged)
    )
    return merged_body(entry, start, clients, coefficients)


def _first(store: ObjectReader, entry: LedgerEntry, key: str) -> bytes:
    file = decode(store.get(key).body)
    outcome = ResultMetadata.from_header(file.metadata).outcome
    if not isinstance(outcome, Initialized):
        raise Malformed(f"{key}: it is no result of initialize")
    return model_body(entry, to_master(file.tensors), outcome.roles)


def _checked(store: ObjectReader, key: str, sha256: str) -> TensorFile:
    body = store.get(key).body
    if digest(body) != sha256:
        raise Malformed(f"{key}: its bytes are not those that were merged")
    return decode(body)
