"""What follows from a change: epochs close, evaluations start and finish, the job stops or goes on.

``settle`` is applied to a head after any change, and once more to its own answer changes nothing.
"""

from datetime import datetime
from math import isfinite

from spotgrad.planning.fold import exhume
from spotgrad.planning.issue import issue_next
from spotgrad.planning.rounds import due
from spotgrad.protocol.head import EpochProgress, Evaluation, EvaluationProgress, Head
from spotgrad.protocol.job import Stop
from spotgrad.protocol.keys import ModelKey
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.recipe import EMA
from spotgrad.protocol.result import Sum
from spotgrad.protocol.subtask import ModelRef

INITIALIZATION = 0  # epoch 0 has the one subtask `initialize`


def settle(head: Head, plan: JobPlan, now: datetime) -> Head:
    """Return the head with all consequences drawn and the next subtasks in its outbox."""
    if head.ended:
        return head
    head = _fail_if_hopeless(head, plan)
    if not head.ended:
        head = _finish_evaluations(_close_epochs(head, plan, now), plan)
    if not head.ended:
        head = _end_if_done(_close_late(_open_epochs(head, plan, now), plan, now), plan)
    if head.ended or head.state == "PAUSED":
        return head.model_copy(update={"outbox": ()})
    return issue_next(head, plan, now)


def open_initialization(now: datetime) -> EpochProgress:
    """Return epoch 0, which every job starts with."""
    return EpochProgress(epoch=INITIALIZATION, subtasks=1, issued_at=now)


def published(head: Head, plan: JobPlan) -> ModelRef | None:
    """Return the copy of the latest version that is evaluated and exported: its ema, if any."""
    model = head.model
    if model is None or plan.spec.merge.ema is None:
        return model
    key = ModelKey(head.job, model.version, model.commit, EMA).render()
    return model.model_copy(update={"key": key})


def evaluating(head: Head, plan: JobPlan, epoch: int, model: ModelRef, now: datetime) -> Head:
    """Return the head with the evaluation of ``model``, for this epoch, begun.

    What died in an earlier evaluation of this epoch is done anew.
    """
    for grave in head.dead:
        if grave.model is not None and grave.epoch == epoch:
            head = exhume(head, grave, now)
    progress = EvaluationProgress(
        epoch=epoch, model=model, subtasks=plan.evaluation_shards, begun_at=now, issued_at=now
    )
    return head.model_copy(update={"evaluations": (*head.evaluations, progress)})


def _fail_if_hopeless(head: Head, plan: JobPlan) -> Head:
    if any(grave.epoch == INITIALIZATION for grave in head.dead):
        return _ended(head, "FAILED", f"initialize is dead: {head.dead[0].reason}")
    limit = plan.spec.retries.max_dead
    share = round(limit * plan.spec.epochs * plan.train_shards, 6)  # 0.29 x 100 is 28.999...
    allowed = limit if limit >= 1 else share
    if len(head.dead) > allowed:
        last = head.dead[-1]
        reason = f"too many dead subtasks ({len(head.dead)}), last {last.subtask}: {last.reason}"
        return _ended(head, "FAILED", reason)
    return head


def _close_epochs(head: Head, plan: JobPlan, now: datetime) -> Head:
    while head.epochs and head.epochs[0].complete and not due(head, plan, now):
        closed = head.epochs[0]
        head = head.model_copy(update={"epochs": head.epochs[1:]})
        model = published(head, plan)
        if _is_evaluated(closed.epoch, plan) and model is not None:
            head = evaluating(head, plan, closed.epoch, model, now)
        if not head.epochs:
            head = _opened(head, plan, closed.epoch + 1, now)
    return head


def _close_late(head: Head, plan: JobPlan, now: datetime) -> Head:
    """Close what was redriven after its epoch: a later epoch's evaluation will see it.

    Where none would follow, the final version is evaluated once more.
    """
    late = tuple(one for one in head.late if not one.complete)
    if head.epochs:
        return head.model_copy(update={"late": late})
    if late or not head.late or head.evaluations or due(head, plan, now):
        return head
    head = head.model_copy(update={"late": ()})
    model = published(head, plan)
    seen = any(one.model == model for one in head.evaluated)
    if plan.spec.evaluate is None or model is None or seen:
        return head
    return evaluating(head, plan, plan.spec.epochs, model, now)


def _is_evaluated(epoch: int, plan: JobPlan) -> bool:
    evaluate = plan.spec.evaluate
    if evaluate is None or epoch == INITIALIZATION:
        return False
    return epoch % evaluate.every_epochs == 0 or epoch == plan.spec.epochs


def _open_epochs(head: Head, plan: JobPlan, now: datetime) -> Head:
    """Rolling issue runs ahead: open the epochs that it may issue from."""
    schedule = plan.spec.schedule
    if schedule.issue == "barrier" or not head.epochs or head.epochs[0].epoch == INITIALIZATION:
        return head
    last = head.epochs[0].epoch + schedule.max_epoch_lead
    while head.epochs[-1].epoch < min(last, plan.spec.epochs):
        head = _opened(head, plan, head.epochs[-1].epoch + 1, now)
    return head


def _opened(head: Head, plan: JobPlan, epoch: int, now: datetime) -> Head:
    if epoch > plan.spec.epochs:
        return head
    start = head.model if plan.spec.merge.starts_at_epoch else None
    opened = EpochProgress(
        epoch=epoch, subtasks=plan.train_shards, start=start, begun_at=now, issued_at=now
    )
    state = "RUNNING" if head.state == "PLANNING" else head.state
    return head.model_copy(update={"epochs": (*head.epochs, opened), "state": state})


def _finish_evaluations(head: Head, plan: JobPlan) -> Head:
    for progress in head.evaluations:
        if progress.complete and not head.ended:
            metrics = mean_metrics(progress.sums)
            done = Evaluation(epoch=progress.epoch, model=progress.model, metrics=metrics)
            left = tuple(one for one in head.evaluations if one is not progress)
            again = (done.epoch, done.model)
            others = (one for one in head.evaluated if (one.epoch, one.model) != again)
            evaluated = (*others, done) if metrics else head.evaluated
            # By epoch, so that an evaluation which was late is not taken for the latest.
            evaluated = tuple(sorted(evaluated, key=lambda one: one.epoch))
            head = head.model_copy(update={"evaluations": left, "evaluated": evaluated})
            head = _stopped(head, plan.spec.stop, done)
    return head


def mean_metrics(sums: dict[int, dict[str, Sum]]) -> dict[str, float]:
    """Return each metric's mean over all samples, added up in order of shard.

    The order of arrival must not show in the last bits. A mean that overflows is left out: JSON
    has no infinity, and a head that cannot be read again is a lost job.
    """
    names = sorted({name for shard in sums.values() for name in shard})
    shards = [sums[number] for number in sorted(sums)]
    means = {name: _mean([shard[name] for shard in shards if name in shard]) for name in names}
    return {name: mean for name, mean in means.items() if isfinite(mean)}


def _mean(parts: list[Sum]) -> float:
    return sum(part.total for part in parts) / sum(part.count for part in parts)


def _stopped(head: Head, stop: Stop | None, done: Evaluation) -> Head:
    if stop is None or not met(stop, done.metrics):
        return head
    bound = f">= {stop.at_least:g}" if stop.at_least is not None else f"<= {stop.at_most:g}"
    value = done.metrics[stop.metric]
    reason = f"stop rule met in epoch {done.epoch}: {stop.metric} {value:.6g} {bound}"
    return _finished(head.model_copy(update={"final": done.model}), reason)


def met(stop: Stop, metrics: dict[str, float]) -> bool:
    """Return whether an evaluation meets the stop rule."""
    if stop.metric not in metrics:
        return False
    value = metrics[stop.metric]
    if stop.at_least is not None:
        return value >= stop.at_least
    return stop.at_most is not None and value <= stop.at_most


def _end_if_done(head: Head, plan: JobPlan) -> Head:
    if head.epochs or head.late or head.evaluations:
        return head
    return _finished(head.model_copy(update={"final": published(head, plan)}), None)


def _finished(head: Head, reason: str | None) -> Head:
    """Return the head at a good end: SUCCEEDED, or DEGRADED when a subtask is dead."""
    if not head.dead:
        return _ended(head, "SUCCEEDED", reason)
    names = ", ".join(f"{grave.subtask} of epoch {grave.epoch}" for grave in head.dead[:5])
    more = f" and {len(head.dead) - 5} more" if len(head.dead) > 5 else ""
    dead = f"{len(head.dead)} dead: {names}{more}: {head.dead[-1].reason}"
    return _ended(head, "DEGRADED", dead if reason is None else f"{reason}; {dead}")


def _ended(head: Head, state: str, reason: str | None) -> Head:
    return head.model_copy(update={"state": state, "reason": reason})
