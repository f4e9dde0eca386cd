"""What a wish in ``control.json`` does to a head.

Idempotent: a head that is as the user wants it comes back equal, so nothing is committed.
"""

from datetime import datetime

from spotgrad.planning.leases import resume_all
from spotgrad.planning.redrive import redrive
from spotgrad.planning.settle import published, settle
from spotgrad.protocol.control import Control
from spotgrad.protocol.head import Head
from spotgrad.protocol.plan import JobPlan


def obey(head: Head, plan: JobPlan, control: Control, now: datetime) -> Head:
    """Return the head as the user wants it.

    Cancelling is for good. While a job is paused nothing is issued and a ``resume`` token is left
    for later; what is redriven meanwhile goes out with the rest when the job goes on.
    """
    if control.want == "cancel":
        return _cancelled(head, plan)
    after = head if control.redrive is None else redrive(head, plan, control.redrive, now)
    if after.ended:
        return after
    after = _paused(after) if control.want == "pause" else _running(after, control, now)
    return head if after == head else settle(after, plan, now)


def _cancelled(head: Head, plan: JobPlan) -> Head:
    if head.ended:
        return head
    return head.model_copy(
        update={
            "state": "CANCELLED",
            "reason": "cancelled by its control file",
            "final": published(head, plan),
            "outbox": (),
        }
    )


def _paused(head: Head) -> Head:
    return head.model_copy(update={"state": "PAUSED"})


def _running(head: Head, control: Control, now: datetime) -> Head:
    """Return the head running, with all that is open sent again if it was paused or is asked to."""
    asked = control.resume not in (None, head.resume_token)
    if not asked and head.state != "PAUSED":
        return head
    if head.state == "PAUSED":
        state = "PLANNING" if head.version is None else "RUNNING"
        head = head.model_copy(update={"state": state})
    if asked:
        head = head.model_copy(update={"resume_token": control.resume})
    return resume_all(head, now)
