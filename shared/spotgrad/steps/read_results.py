"""Results from the store to arrivals: bytes, header, tensors, and what the gate's inspection says.

A damaged result is an arrival with a problem, never an error: it is refused with its reason, and
the batch that it came in goes on. Each object is read once per step, however often it is decided.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from spotgrad.errors import Malformed, NotFound
from spotgrad.merging.admission import Inspection, inspect
from spotgrad.ports import ObjectReader
from spotgrad.protocol.keys import ModelKey, ResultKey
from spotgrad.protocol.result import Base, Initialized, ModelMetadata, ResultMetadata, Role, Trained
from spotgrad.protocol.tensors import TensorFile, checksum, decode, digest
from spotgrad.steps.arrival import Arrival
from spotgrad.steps.contribution import contribution, inspect_gradient
from spotgrad.steps.model_file import ModelReader, roles_of

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
    problem, tensors, norm = _inspected(models, key, metadata, file)
    roles = getattr(metadata.outcome, "roles", {})
    return LoadedResult(Arrival(key, sha256, metadata, problem, norm or 0.0), tensors, roles)


def _inspected(
    models: ModelReader, key: ResultKey, metadata: ResultMetadata, file: TensorFile
) -> tuple[str | None, Tensors, float | None]:
    """Return the result's problem, its tensors, and the norm of its update."""
    problem = _unlike_itself(key, metadata, file.tensors)
    if problem is not None:
        return problem, {}, None
    try:
        tensors = contribution(metadata, file)
    except Malformed as error:
        return str(error), {}, None
    found = _judged(models, key, metadata, tensors)
    return found.problem, tensors, found.update_norm


def _unlike_itself(key: ResultKey, metadata: ResultMetadata, tensors: Tensors) -> str | None:
    """Return how the result is not what its own header says, or None."""
    claimed = (metadata.job, metadata.epoch, metadata.subtask, metadata.attempt)
    if claimed != (key.job, key.epoch, key.subtask, key.attempt):
        return f"its header belongs to {'/'.join(map(str, claimed))}"
    return _damage(metadata.data_crc32, tensors)


def _judged(
    models: ModelReader, key: ResultKey, metadata: ResultMetadata, tensors: Tensors
) -> Inspection:
    outcome = metadata.outcome
    if isinstance(outcome, Initialized):
        found = inspect(None, None, tensors, outcome.roles, 1)
        return Inspection(found.problem or _roles_problem(tensors, outcome.roles), None)
    if not isinstance(outcome, Trained):
        return Inspection(None, None)
    start = _start(models, key.job, outcome.base)
    if isinstance(start, str):
        return Inspection(start, None)
    if outcome.gradient is not None:
        return inspect_gradient(start.tensors, roles_of(start), tensors, outcome.samples)
    return inspect(start.tensors, start.tensors, tensors, outcome.roles, outcome.samples)


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


def _start(models: ModelReader, job: str, base: Base) -> TensorFile | str:
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
    return file
