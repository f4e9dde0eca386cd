"""What the quorum of admission makes of results: which are checked, which opinions count.

Pure, and a part of ``decide_results``. Without ``admission.quorum`` nothing here does anything.
"""

from datetime import datetime

from spotgrad.planning.quorum import ask, hear, is_sampled
from spotgrad.protocol.head import Check, Head, Opinion
from spotgrad.protocol.keys import ModelKey
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.result import Base, Trained
from spotgrad.protocol.subtask import ModelRef
from spotgrad.steps.arrival import Arrival


def checked(head: Head, plan: JobPlan, arrival: Arrival, outcome: Trained, now: datetime) -> Head:
    """Return the head that has a result, just counted, trained again if it is sampled."""
    quorum, said = plan.spec.admission.quorum, _opinion(arrival)
    if quorum is None or said is None:
        return head
    if not is_sampled(plan.spec.seed, arrival.item, quorum.share):
        return head
    return ask(head, arrival.item, said, _model(head.job, outcome.base), now)


def is_opinion(head: Head, check: Check, arrival: Arrival) -> bool:
    """Return whether a result may be compared: of a worker not yet heard, from the same version."""
    said, metadata = _opinion(arrival), arrival.metadata
    if said is None or metadata is None or not isinstance(metadata.outcome, Trained):
        return False
    if said.worker in {*head.quarantined, *(one.worker for one in check.opinions)}:
        return False
    return arrival.apart is not None and _model(head.job, metadata.outcome.base) == check.model


def heard(
    head: Head, plan: JobPlan, check: Check, arrival: Arrival, now: datetime
) -> tuple[Head, str]:
    """Return the head after an opinion (``is_opinion``), and what came of it."""
    quorum, said = plan.spec.admission.quorum, _opinion(arrival)
    if quorum is None or said is None or arrival.apart is None:
        raise ValueError(f"{arrival.key.render()} is no opinion")
    return hear(head, check, said, [one <= quorum.tolerance for one in arrival.apart], now)


def why_barred(head: Head, arrival: Arrival) -> str | None:
    """Return why nothing of this result's worker is taken, or None."""
    worker = None if arrival.metadata is None else arrival.metadata.worker
    if worker not in head.quarantined:
        return None
    return f"worker {worker} is quarantined: its results were outvoted"


def _opinion(arrival: Arrival) -> Opinion | None:
    if arrival.metadata is None:
        return None
    key = arrival.key
    return Opinion(worker=arrival.metadata.worker, attempt=key.attempt, key=key.render())


def _model(job: str, base: Base) -> ModelRef:
    key = ModelKey(job, base.version, base.commit).render()
    return ModelRef(version=base.version, commit=base.commit, key=key)
