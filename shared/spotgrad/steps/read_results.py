"""Results from the store to arrivals: bytes, header, tensors, and what the gate's inspection says.

A damaged result is an arrival with a problem, never an error: it is refused with its reason, and
the batch that it came in goes on. Each object is read once per step, however often it is decided.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from spotgrad.errors import Malformed, NotFound
from spotgrad.merging.admission import inspect
from spotgrad.ports import ObjectReader
from spotgrad.protocol.keys import ModelKey, ResultKey
from spotgrad.protocol.result import Base, Initialized, ModelMetadata, ResultMetadata, Role, Trained
from spotgrad.protocol.tensors import checksum, decode, digest
from spotgrad.steps.arrival import Arrival
from spotgrad.steps.model_file import ModelReader

Tensors = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class LoadedResult:
    """An arrival and its tensors (views of the bytes that were read; empty when damaged)."""

    arrival: Arrival
    tensors: Tensors
    roles: Mapping[str, Role]


def load_result(store: ObjectReader, models: ModelReader, key: ResultKey) -> LoadedResult | None:
    """Return the result at ``key``, inspected; None when the object is gone (expired)."""
    try:
        body = store.get(key.render()).body
    except NotFound:
        return None
    sha256 = digest(body)
    try:
        file = decode(body)
        metadata = ResultMetadata.from_header(file.metadata)
    except Malformed as error:
        return LoadedResult(Arrival(key, sha256, None, str(error)), {}, {})
    problem, norm = _inspected(models, key, metadata, file.tensors)
    roles = getattr(metadata.outcome, "roles", {})
    return LoadedResult(Arrival(key, sha256, metadata, problem, norm or 0.0), file.tensors, roles)


def _inspected(
    models: ModelReader, key: ResultKey, metadata: ResultMetadata, tensors: Tensors
) -> tuple[str | None, float | None]:
    claimed = (metadata.job, metadata.epoch, metadata.subtask, metadata.attempt)
    if claimed != (key.job, key.epoch, key.subtask, key.attempt):
        return f"its header belongs to {'/'.join(map(str, claimed))}", None
    damage = _damage(metadata.data_crc32, tensors)
    if damage:
        return damage, None
    outcome = metadata.outcome
    if isinstance(outcome, Initialized):
        found = inspect(None, None, tensors, outcome.roles, 1)
        return found.problem or _roles_problem(tensors, outcome.roles), found.update_norm
    if not isinstance(outcome, Trained):
        return None, None
    start = _start(models, key.job, outcome.base)
    if isinstance(start, str):
        return start, None
    found = inspect(start, start, tensors, outcome.roles, outcome.samples)
    return found.problem, found.update_norm


def _damage(promised_crc32: int | None, tensors: Tensors) -> str | None:
    if promised_crc32 is None:
        return None
    found = checksum(tensors)
    promise = f"expected {promised_crc32:08x}, as its header says: it was damaged on its way"
    return None if found == promised_crc32 else f"the data's CRC-32 is {found:08x}: {promise}"


def _roles_problem(tensors: Tensors, roles: Mapping[str, Role]) -> str | None:
    if not tensors:
        return "it holds no tensors"
    unnamed = sorted(set(tensors) - set(roles))
    return f"tensor {unnamed[0]!r} has no role" if unnamed else None


def _start(models: ModelReader, job: str, base: Base) -> Tensors | str:
    """Return the version that the subtask began from, or why there is none."""
    began = f"it began from version {base.version}, commit {base.commit}"
    try:
        key = ModelKey(job, base.version, base.commit).render()
        file = models.read(key)
        claimed = ModelMetadata.from_header(file.metadata).results_merged
    except NotFound:
        return f"{began}, which does not exist"
    except Malformed as error:
        return f"{began}: {error}"
    if claimed != base.results_merged:
        return f"it says its base held {base.results_merged} results: {key} says {claimed}"
    return file.tensors
