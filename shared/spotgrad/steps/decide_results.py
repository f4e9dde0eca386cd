"""What a batch of results does to a head: the decision of ``aggregate``, without its arithmetic.

Pure: results have been read and inspected, nothing is merged or written yet. The same head and the
same arrivals always give the same decision, so losing a commit means deciding again, no more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from spotgrad.merging.admission import admit, remember
from spotgrad.merging.coefficients import Coefficients, Contribution
from spotgrad.merging.rule import decide as decide_coefficients
from spotgrad.planning.fold import (
    Mishap,
    already_counted,
    count_evaluated,
    count_merged,
    count_mishap,
)
from spotgrad.planning.settle import settle
from spotgrad.planning.standing import why_not_open
from spotgrad.protocol.head import Head, WorkItem
from spotgrad.protocol.keys import ModelKey, ResultKey
from spotgrad.protocol.ledger import MergedResult, SetAside
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.result import Evaluated, Failed, Initialized, ResultMetadata, Trained
from spotgrad.protocol.subtask import ModelRef
from spotgrad.steps.succession import Successor, successor


@dataclass(frozen=True)
class Arrival:
    """A result as it was read: its claims, or the problem for which it must be refused."""

    key: ResultKey
    sha256: str
    metadata: ResultMetadata | None
    problem: str | None
    update_norm: float | None = None

    @property
    def item(self) -> WorkItem:
        """Return the subtask that the result's key names."""
        return WorkItem(epoch=self.key.epoch, subtask=self.key.subtask)

    def set_aside(self, reason: str) -> SetAside:
        """Return the ledger's row for a result that is not merged."""
        return SetAside(
            epoch=self.key.epoch,
            subtask=self.key.subtask,
            attempt=self.key.attempt,
            key=self.key.render(),
            reason=reason,
        )


@dataclass(frozen=True)
class Decision:
    """The next head and ledger entry, and what has to be merged before they can be committed."""

    made: Successor
    coefficients: Coefficients
    merged: tuple[Arrival, ...]
    initialized: Arrival | None
    refused: tuple[SetAside, ...]


@dataclass
class _Draft:
    """The fold in progress; it lives inside one call of ``decide_results``."""

    head: Head
    plan: JobPlan
    merged: list[tuple[Arrival, Trained, int]] = field(default_factory=list)
    initialized: Arrival | None = None
    refused: list[SetAside] = field(default_factory=list)
    failed: list[SetAside] = field(default_factory=list)
    evaluated: list[SetAside] = field(default_factory=list)


def decide_results(
    head: Head, plan: JobPlan, arrivals: Sequence[Arrival], *, commit: str, now: datetime
) -> Decision | None:
    """Return what these results, in order of arrival, do to the head; None when they do nothing.

    A result that the head already counts or that is not open is dropped; the first result of a
    subtask wins. The new head's ``objects`` still name the old server copy: merging comes next.
    """
    draft = _Draft(head.model_copy(update={"outbox": ()}), plan)
    for arrival in arrivals:
        if _counts(draft.head, arrival):
            _fold(draft, arrival)
    if not (draft.merged or draft.initialized or draft.refused or draft.failed or draft.evaluated):
        return None
    after = _with_version(draft, commit)
    settled = settle(after, plan, now)
    coefficients = _coefficients(draft)
    facts = _facts(draft, head, settled, coefficients)
    made = successor(head, settled, commit=commit, now=now, **facts)
    return Decision(
        made,
        coefficients,
        tuple(arrival for arrival, _, _ in draft.merged),
        draft.initialized,
        tuple(draft.refused),
    )


def _counts(head: Head, arrival: Arrival) -> bool:
    """Return whether the result still matters: open, of this run, and not counted before."""
    run = head.run if arrival.metadata is None else arrival.metadata.run
    if why_not_open(head, run, arrival.item) is not None:
        return False
    return not already_counted(head, arrival.item, arrival.key.attempt)


def _fold(draft: _Draft, arrival: Arrival) -> None:
    reason = arrival.problem or _misplaced(draft, arrival)
    outcome = None if arrival.metadata is None else arrival.metadata.outcome
    if reason is None and isinstance(outcome, Trained):
        reason = _fold_trained(draft, arrival, outcome)
    elif reason is None and isinstance(outcome, Initialized):
        draft.initialized = arrival
        draft.head = count_merged(draft.head, arrival.item)
    elif reason is None and isinstance(outcome, Evaluated):
        draft.evaluated.append(arrival.set_aside("evaluated"))
        draft.head = count_evaluated(draft.head, arrival.item, outcome.sums)
    elif reason is None and isinstance(outcome, Failed):
        draft.failed.append(arrival.set_aside(outcome.error))
        draft.head = _mishap(draft, arrival, "failed", outcome.error)
    if reason is not None:
        draft.refused.append(arrival.set_aside(reason))
        draft.head = _mishap(draft, arrival, "refused", reason)


def _misplaced(draft: _Draft, arrival: Arrival) -> str | None:
    """Return why this kind of result cannot come from this subtask, or None."""
    metadata = arrival.metadata
    if metadata is None:
        return "it has no header"
    if isinstance(metadata.outcome, Failed):
        return None
    kind = arrival.key.subtask.partition("-")[0]
    expected = {"initialize": "initialized", "train": "trained", "evaluate": "evaluated"}[kind]
    if metadata.outcome.kind != expected:
        return f"a result of {kind} must be {expected}, not {metadata.outcome.kind}"
    if isinstance(metadata.outcome, Evaluated):
        return _other_version(draft.head, arrival.key.epoch, metadata.outcome)
    return None


def _other_version(head: Head, epoch: int, outcome: Evaluated) -> str | None:
    model = next(one.model for one in head.evaluations if one.epoch == epoch)
    if (outcome.version, outcome.commit) == (model.version, model.commit):
        return None
    return f"it evaluated version {outcome.version}, epoch {epoch} was closed by {model.version}"


def _fold_trained(draft: _Draft, arrival: Arrival, outcome: Trained) -> str | None:
    """Merge a training result into the draft; return why it is refused instead, or None."""
    if arrival.update_norm is None:
        return "its update was not measured"
    staleness = draft.head.results_merged - outcome.base.results_merged
    if staleness < 0:
        return f"it began from {-staleness} results that are not merged yet"
    reason = admit(arrival.update_norm, draft.head.norms)
    if reason is None:
        draft.merged.append((arrival, outcome, staleness))
        draft.head = count_merged(draft.head, arrival.item).model_copy(
            update={
                "results_merged": draft.head.results_merged + 1,
                "norms": remember(draft.head.norms, arrival.update_norm),
            }
        )
    return reason


def _mishap(draft: _Draft, arrival: Arrival, cause: Any, reason: str) -> Head:
    mishap = Mishap(cause, arrival.key.attempt, reason, arrival.key.render())
    return count_mishap(draft.head, draft.plan, arrival.item, mishap)


def _with_version(draft: _Draft, commit: str) -> Head:
    """Return the draft's head, with a new version when parameters changed."""
    head = draft.head
    if not draft.merged and draft.initialized is None:
        return head
    version = 0 if head.version is None else head.version + 1
    model = ModelRef(
        version=version, commit=commit, key=ModelKey(head.job, version, commit).render()
    )
    return head.model_copy(update={"version": version, "model": model})


def _coefficients(draft: _Draft) -> Coefficients:
    if not draft.merged:
        return Coefficients(server=1.0, clients=())
    batch = [
        Contribution(arrival.key.epoch, staleness, outcome.samples)
        for arrival, outcome, staleness in draft.merged
    ]
    return decide_coefficients(draft.plan.spec.merge, batch)


def _facts(draft: _Draft, before: Head, after: Head, coefficients: Coefficients) -> dict[str, Any]:
    """Return what the ledger entry records of this batch."""
    still_open = {progress.epoch for progress in after.epochs}
    initialized = draft.initialized
    return {
        "start": before.objects.get("server") if draft.merged else None,
        "server_coefficient": coefficients.server if draft.merged else None,
        "initialized_from": initialized.set_aside("initialized") if initialized else None,
        "merged": _merged_rows(draft, coefficients),
        "refused": tuple(draft.refused),
        "failed": tuple(draft.failed),
        "evaluated": tuple(draft.evaluated),
        "dead": after.dead[len(before.dead) :],
        "closed_epochs": tuple(
            progress.epoch for progress in before.epochs if progress.epoch not in still_open
        ),
    }


def _merged_rows(draft: _Draft, coefficients: Coefficients) -> tuple[MergedResult, ...]:
    return tuple(
        MergedResult(
            epoch=arrival.key.epoch,
            subtask=arrival.key.subtask,
            attempt=arrival.key.attempt,
            key=arrival.key.render(),
            sha256=arrival.sha256,
            samples=outcome.samples,
            staleness=staleness,
            base=outcome.base,
            coefficient=coefficient,
            update_norm=arrival.update_norm or 0.0,
        )
        for (arrival, outcome, staleness), coefficient in zip(
            draft.merged, coefficients.clients, strict=True
        )
    )
