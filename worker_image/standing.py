"""Whether a message's subtask is still open: a message is a hint, the head is the truth.

Pure: the head and the message come in, a reason comes out. Nothing here reads, waits or deletes.
"""

from spotgrad.protocol.head import EpochProgress, EvaluationProgress, Head
from spotgrad.protocol.keys import SubtaskName
from spotgrad.protocol.subtask import Subtask

__all__ = ["open_evaluation", "why_not_open"]


def why_not_open(head: Head, subtask: Subtask) -> str | None:
    """Return why nobody needs ``subtask`` any more, or nothing when it is open.

    Raises:
        Malformed: the message's subtask is not a name of the grammar.
    """
    name = SubtaskName.parse(subtask.subtask)
    if head.run != subtask.run:
        return f"it is of run {subtask.run}, the job is in run {head.run}"
    if head.ended or head.state == "PAUSED":
        return f"the job is {head.state}"
    if name.kind == "evaluate":
        return _evaluation_reason(head, subtask, name.shard or 0)
    return _training_reason(head, subtask, name)


def open_evaluation(head: Head, epoch: int) -> EvaluationProgress | None:
    """Return the running evaluation of ``epoch``; its ``model`` is what is to be evaluated."""
    return next((each for each in head.evaluations if each.epoch == epoch), None)


def _training_reason(head: Head, subtask: Subtask, name: SubtaskName) -> str | None:
    if (name.kind == "initialize") != (subtask.epoch == 0):
        return f"epoch {subtask.epoch} has no {subtask.subtask}"
    if name.kind == "train" and head.model is None:
        return "the job has no model version yet"
    for progress in head.epochs:
        if progress.epoch == subtask.epoch:
            return _epoch_reason(progress, name.shard or 0)
    return f"epoch {subtask.epoch} is not open"


def _epoch_reason(progress: EpochProgress, number: int) -> str | None:
    if number >= progress.subtasks:
        return f"epoch {progress.epoch} has {progress.subtasks} subtasks only"
    if progress.merged.has(number):
        return "it is merged already"
    return "it is dead" if progress.dead.has(number) else None


def _evaluation_reason(head: Head, subtask: Subtask, shard: int) -> str | None:
    progress = open_evaluation(head, subtask.epoch)
    if progress is None:
        return f"no evaluation of epoch {subtask.epoch} is open"
    if subtask.model is not None and subtask.model != progress.model:
        return f"it evaluates version {subtask.model.version}, the job {progress.model.version}"
    if shard >= progress.subtasks:
        return f"the evaluation has {progress.subtasks} subtasks only"
    if shard in progress.sums:
        return "it has reported already"
    return "it is dead" if progress.dead.has(shard) else None
