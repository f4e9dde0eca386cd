"""Budget and deadline: when a job has to stop, and how it stands then.

What it has by then is what the user gets: the latest version becomes the final one and nothing more
is issued or merged. Money is spent while attempts run; what workers cost while they wait for
work, or start, nobody here knows.
"""

from datetime import datetime

from spotgrad.planning.settle import published
from spotgrad.protocol.head import Head
from spotgrad.protocol.job import Budget
from spotgrad.protocol.plan import JobPlan


def cut_short(head: Head, plan: JobPlan, spent_usd: float | None, now: datetime) -> Head:
    """Return the head ended when its budget or deadline is reached: DEGRADED, or FAILED.

    The deadline counts from the start, pauses included; a paused job ends when it is resumed.
    """
    budget = plan.spec.budget
    if budget is None or head.ended or head.state == "PAUSED":
        return head
    reason = _reached(budget, spent_usd, now, head.started_at)
    if reason is None:
        return head
    if head.model is None:
        return _ended(head, plan, "FAILED", f"{reason} before there was a version")
    return _ended(head, plan, "DEGRADED", reason)


def _reached(
    budget: Budget, spent_usd: float | None, now: datetime, started_at: datetime
) -> str | None:
    if budget.max_usd is not None and spent_usd is not None and spent_usd >= budget.max_usd:
        return f"budget of {budget.max_usd:g} USD reached ({spent_usd:.4g} spent)"
    if budget.lasts is not None and now - started_at >= budget.lasts:
        return f"deadline of {budget.deadline} reached"
    return None


def _ended(head: Head, plan: JobPlan, state: str, reason: str) -> Head:
    changes = {"state": state, "reason": reason, "final": published(head, plan), "outbox": ()}
    return head.model_copy(update=changes)
