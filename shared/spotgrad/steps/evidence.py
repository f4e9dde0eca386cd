"""Evidence: what is known of a dead subtask's last attempt, read from the result it left.

Reads alone, and forgives: results expire, and what was refused may be damaged.
"""

from dataclasses import dataclass

from spotgrad.errors import Malformed, NotFound
from spotgrad.ports import ObjectReader
from spotgrad.protocol.head import DeadSubtask
from spotgrad.protocol.keys import SubtaskName
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.result import Failed, ResultMetadata
from spotgrad.protocol.tensors import decode
from spotgrad.steps.documents import read_plan

__all__ = ["Evidence", "read_evidence"]


@dataclass(frozen=True)
class Evidence:
    """The shard that the subtask reads, and what the user's code raised, and where."""

    shard: str | None = None
    worker: str | None = None
    error: str | None = None
    traceback: str | None = None
    batch_idx: int | None = None
    """The batch within a pass over the shard, counted from 0."""
    rows: tuple[int, ...] = ()
    """The batch's samples, by row of the shard; of a large batch the first ones."""


def read_evidence(store: ObjectReader, job: str, grave: DeadSubtask) -> Evidence:
    """Return what is known; raises ``NotFound`` when the job's plan is gone."""
    shard = _shard(read_plan(store, job), grave.subtask)
    metadata = _metadata(store, grave.evidence)
    if metadata is None:
        return Evidence(shard)
    failed = metadata.outcome
    if not isinstance(failed, Failed):
        return Evidence(shard, metadata.worker)
    return Evidence(
        shard=shard,
        worker=metadata.worker,
        error=failed.error,
        traceback=failed.traceback,
        batch_idx=failed.batch_idx,
        rows=failed.rows,
    )


def _shard(plan: JobPlan, subtask: str) -> str | None:
    """Return the key of the shard that a subtask reads; ``initialize`` reads none."""
    name, evaluate = SubtaskName.parse(subtask), plan.spec.evaluate
    if name.shard is None:
        return None
    split = evaluate.split if name.kind == "evaluate" and evaluate is not None else "train"
    return plan.manifest.splits[split].shards[name.shard].key


def _metadata(store: ObjectReader, key: str | None) -> ResultMetadata | None:
    if key is None:
        return None
    try:
        return ResultMetadata.from_header(decode(store.get(key).body).metadata)
    except (NotFound, Malformed):
        return None
