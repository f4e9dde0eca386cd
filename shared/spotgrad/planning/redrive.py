"""Redrive: dead subtasks become open again, also after their epoch closed or their job ended.

A closed epoch is not opened again: it would hold up the one that is. Its redriven subtasks stand
in ``head.late``, apart from the order of epochs, and are merged with the alpha of their own epoch.
An evaluation that is over is made anew, for its sums are gone.
"""

from datetime import datetime

from spotgrad.planning.fold import exhume
from spotgrad.planning.leases import resume_all
from spotgrad.planning.settle import evaluating
from spotgrad.planning.standing import number_of, progress_of, same, with_progress
from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.control import Redrive
from spotgrad.protocol.head import DeadSubtask, EpochProgress, Head
from spotgrad.protocol.plan import JobPlan


def redrive(head: Head, plan: JobPlan, wish: Redrive, now: datetime) -> Head:
    """Return the head with the dead subtasks that the wish names open; all where it names none.

    They are not issued here. A job that ended goes on, unless somebody cancelled it.
    """
    if wish.token == head.redrive_token or head.state == "CANCELLED":
        return head
    named = wish.subtasks
    chosen = [one for one in head.dead if not named or any(same(one, item) for item in named)]
    if not chosen and head.ended:
        return head  # nothing will die in it any more: the wish need not be remembered
    for grave in chosen:
        head = _reopened(exhume(head, grave, now), plan, grave, now)
    head = head.model_copy(update={"redrive_token": wish.token})
    return _revived(head, now) if head.ended else head


def _reopened(head: Head, plan: JobPlan, grave: DeadSubtask, now: datetime) -> Head:
    progress, own = progress_of(head, grave), Bitmap.of([number_of(grave)])
    if progress is not None:
        alive = {"dead": progress.dead.minus(own), "issued": progress.issued.minus(own)}
        was_dead = progress.dead.has(number_of(grave))  # not in an evaluation that began since
        return with_progress(head, grave, **alive) if was_dead else head
    if grave.model is not None:
        return evaluating(head, plan, grave.epoch, grave.model, now)
    return _late(head, plan, grave, now)


def _late(head: Head, plan: JobPlan, grave: DeadSubtask, now: datetime) -> Head:
    """Return the head with a closed epoch in which this subtask alone is left to do."""
    whole = Bitmap.of(range(plan.train_shards))
    others = (one for one in head.dead if one.epoch == grave.epoch and one.model is None)
    dead = Bitmap.of(number_of(one) for one in others)
    issued = whole.minus(Bitmap.of([number_of(grave)]))
    progress = EpochProgress(
        epoch=grave.epoch,
        subtasks=plan.train_shards,
        issued=issued,
        merged=issued.minus(dead),
        dead=dead,
        issued_at=now,
    )
    return head.model_copy(update={"late": (*head.late, progress)})


def _revived(head: Head, now: datetime) -> Head:
    """Return the ended head under way again; its messages are gone, so all is issued anew."""
    state = "PLANNING" if head.version is None else "RUNNING"
    alive = {"state": state, "reason": None, "final": None}
    return resume_all(head.model_copy(update=alive), now)
