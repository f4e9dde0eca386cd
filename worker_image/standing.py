"""Whether a message's subtask is worth a worker's time: the head is the truth, a message a hint.

Pure: the head and the message come in, a reason comes out. What is open at all is decided by
``spotgrad.planning.standing``, as for results; here stands what only a worker cares about.
"""

from spotgrad.planning import standing
from spotgrad.protocol.head import EvaluationProgress, Head, WorkItem
from spotgrad.protocol.subtask import Subtask

__all__ = ["open_evaluation", "why_not_mine", "why_not_open"]


def why_not_open(head: Head, subtask: Subtask) -> str | None:
    """Return why nobody needs ``subtask`` now, or nothing when it is open.

    A paused job still takes results, but no new work; resuming it issues everything open anew.
    """
    item = WorkItem(epoch=subtask.epoch, subtask=subtask.subtask)
    closed = standing.why_not_open(head, subtask.run, item)
    if closed is not None:
        return closed
    if head.state == "PAUSED":
        return "its job is PAUSED"
    if subtask.subtask.startswith("train") and head.model is None:
        return "its job has no model version yet"
    evaluation = open_evaluation(head, subtask)
    if evaluation is not None and subtask.model not in (None, evaluation.model):
        return f"it is about another version than {evaluation.model.version}"
    return None


def why_not_mine(head: Head, subtask: Subtask, worker: str) -> str | None:
    """Return why an open subtask is for others to do, or nothing: nobody checks their own work."""
    check = standing.check_of(head, WorkItem(epoch=subtask.epoch, subtask=subtask.subtask))
    if check is not None and worker in {one.worker for one in check.opinions}:
        return "it checks this worker's own result"
    return None


def open_evaluation(head: Head, subtask: Subtask) -> EvaluationProgress | None:
    """Return the evaluation that ``subtask`` is part of; its ``model`` is what is evaluated."""
    if not subtask.subtask.startswith("evaluate"):
        return None
    return next((each for each in head.evaluations if each.epoch == subtask.epoch), None)
