"""What a batch of results does to a head: the decision of ``aggregate``, without its arithmetic.

Pure: results have been read and inspected, nothing is merged or written yet. The same head and the
same arrivals always give the same decision, so losing a commit means deciding again, no more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from spotgrad.merging.admission import admit, admit_loss, remember
from spotgrad.planning.fold import (
    Cause,
    Mishap,
    already_counted,
    count_evaluated,
    count_merged,
    count_mishap,
    send_again,
    turn_away,
)
from spotgrad.planning.large_batch import is_full, is_too_late, shard_samples
from spotgrad.planning.rounds import due, leave_behind, nothing_follows
from spotgrad.planning.settle import settle
from spotgrad.planning.standing import check_of, fault_of, why_not_open
from spotgrad.protocol.head import Head, WorkItem
from spotgrad.protocol.keys import ModelKey, ResultKey
from spotgrad.protocol.ledger import SetAside
from spotgrad.protocol.merge import DeDLOC
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.recipe import SERVER, Closing, Recipe
from spotgrad.protocol.result import Evaluated, Failed, Outcome, Trained
from spotgrad.protocol.subtask import ModelRef
from spotgrad.steps.arrival import Arrival
from spotgrad.steps.decide_checks import checked, heard, is_opinion, why_barred
from spotgrad.steps.decide_merge import Admitted, decide_merge, merge_facts
from spotgrad.steps.succession import Successor, successor


@dataclass(frozen=True)
class Decision:
    """The next head and ledger entry, and what has to be merged before they can be committed."""

    made: Successor
    recipe: Recipe
    """Empty when nothing was merged."""
    merged: tuple[Arrival, ...]
    initialized: Arrival | None
    refused: tuple[SetAside, ...]
    left: tuple[ResultKey, ...] = ()
    """Results that come after an optimizer step, which makes a version: to be decided next."""


@dataclass
class _Draft:
    """The fold in progress; it lives inside one call of ``decide_results``."""

    head: Head
    plan: JobPlan
    now: datetime
    merged: list[Admitted] = field(default_factory=list)
    initialized: Arrival | None = None
    refused: list[SetAside] = field(default_factory=list)
    failed: list[SetAside] = field(default_factory=list)
    evaluated: list[SetAside] = field(default_factory=list)
    late: list[SetAside] = field(default_factory=list)
    left: list[ResultKey] = field(default_factory=list)
    compared: list[SetAside] = field(default_factory=list)
    closes: Closing | None = None
    dropped: tuple[WorkItem, ...] = ()

    @property
    def merges(self) -> bool:
        """Return whether there is something to merge: results, or what a round has collected."""
        return bool(self.merged) or self.closes is not None

    @property
    def empty(self) -> bool:
        """Return whether nothing has been counted and nothing is to be merged."""
        aside = (self.refused, self.failed, self.evaluated, self.late, self.compared)
        return not any((self.merges, self.initialized, *aside))

    @property
    def full(self) -> bool:
        """Return whether what is merged here makes an optimizer step."""
        return is_full(self.head, self.plan, sum(one.outcome.samples for one in self.merged))


def decide_results(
    head: Head, plan: JobPlan, arrivals: Sequence[Arrival], *, commit: str, now: datetime
) -> Decision | None:
    """Return what these results, in order of arrival, do to the head; None when they do nothing.

    A result that the head already counts or that is not open is dropped; the first result of a
    subtask wins. A synchronous round that is over is closed, with or without a result. The new
    head's ``objects`` still name the old server copy: merging comes next.
    """
    draft = _Draft(head.model_copy(update={"outbox": ()}), plan, now)
    for arrival in arrivals:
        if not _counts(draft.head, arrival):
            continue
        if draft.full:
            draft.left.append(arrival.key)
        else:
            _fold(draft, arrival)
    draft.closes = "step" if draft.full else due(draft.head, plan, now, len(draft.merged))
    if draft.empty:
        return None
    if draft.closes is not None and plan.spec.merge.in_rounds:
        draft.head, draft.dropped = leave_behind(draft.head, plan)
    recipe = decide_merge(draft.head, plan, draft.merged, draft.closes)
    settled = settle(_with_version(draft, recipe, commit), plan, now)
    facts = _facts(draft, head, recipe)
    made = successor(head, settled, commit=commit, now=now, **facts)
    return Decision(
        made,
        recipe,
        tuple(one.arrival for one in draft.merged),
        draft.initialized,
        tuple(draft.refused),
        tuple(draft.left),
    )


def _counts(head: Head, arrival: Arrival) -> bool:
    """Return whether the result still matters: open, of this run, and not counted before."""
    run = head.run if arrival.metadata is None else arrival.metadata.run
    if why_not_open(head, run, arrival.item) is not None:
        return False
    if already_counted(head, arrival.item, arrival.key.attempt):
        return False
    check = check_of(head, arrival.item)
    if check is not None:
        return is_opinion(head, check, arrival)
    return not _evaluated_before(head, arrival)


def _evaluated_before(head: Head, arrival: Arrival) -> bool:
    """Return whether it is of an evaluation that is over, of an epoch that is evaluated again."""
    outcome = None if arrival.metadata is None else arrival.metadata.outcome
    if not isinstance(outcome, Evaluated) or not arrival.key.subtask.startswith("evaluate"):
        return False
    epoch, said = arrival.key.epoch, (outcome.version, outcome.commit)
    now = [one.model for one in head.evaluations if one.epoch == epoch]
    over = [one.model for one in head.evaluated if one.epoch == epoch and one.model not in now]
    return said in [(model.version, model.commit) for model in over]


def _fold(draft: _Draft, arrival: Arrival) -> None:
    outcome = None if arrival.metadata is None else arrival.metadata.outcome
    check = check_of(draft.head, arrival.item)
    if check is not None:
        draft.head, said = heard(draft.head, draft.plan, check, arrival, draft.now)
        draft.compared.append(arrival.set_aside(said))
        return
    barred = why_barred(draft.head, arrival)
    if barred is not None:
        draft.refused.append(arrival.set_aside(barred))
        draft.head = turn_away(draft.head, arrival.item, arrival.key.attempt, draft.now)
        return
    reason = arrival.problem or _misplaced(draft.head, arrival.key, outcome)
    if reason is not None:
        draft.refused.append(_mishap(draft, arrival, "refused", reason))
    elif isinstance(outcome, Trained):
        _fold_trained(draft, arrival, outcome)
    else:
        _fold_other(draft, arrival, outcome)


def _fold_trained(draft: _Draft, arrival: Arrival, outcome: Trained) -> None:
    """Merge a training result into the draft, refuse it, or have it computed again."""
    head, gate = draft.head, draft.plan.spec.admission
    if is_too_late(head, draft.plan, outcome.base.version):
        now_at = f"it is of version {outcome.base.version}, the model is at {head.version}"
        draft.late.append(arrival.set_aside(now_at))
        draft.head = send_again(head, arrival.item, arrival.key.attempt, draft.now)
        return
    staleness = head.results_merged - outcome.base.results_merged
    too_long = admit(arrival.update_norm, head.norms, gate.norm, fault_of(head, arrival.item).norms)
    reason = _misfit(draft.plan, arrival.item, outcome) or _too_early(staleness) or too_long
    if reason is None and gate.held_out is not None:
        reason = admit_loss(_loss_of(outcome), head.losses)
    if reason is not None:
        norm = arrival.update_norm if reason == too_long else None
        draft.refused.append(_mishap(draft, arrival, "refused", reason, norm))
        return
    draft.merged.append(Admitted(arrival, outcome, staleness))
    loss = _loss_of(outcome)
    changes = {
        "results_merged": head.results_merged + 1,
        "norms": remember(head.norms, arrival.update_norm),
        "losses": head.losses if loss is None else remember(head.losses, loss),
    }
    merged = count_merged(head, arrival.item).model_copy(update=changes)
    draft.head = checked(merged, draft.plan, arrival, outcome, draft.now)


def _misfit(plan: JobPlan, item: WorkItem, outcome: Trained) -> str | None:
    """Return why such a result cannot be of this job's rule, or of this shard; else None."""
    if isinstance(plan.spec.merge, DeDLOC) != (outcome.gradient is not None):
        found, rule = "parameters" if outcome.gradient is None else "a gradient", plan.spec.merge
        return f"it holds {found}: not what the rule {rule.rule} merges"
    most = shard_samples(plan, item)
    if outcome.samples > most:
        return f"it says {outcome.samples} samples: its shard has {most}"
    return None


def _too_early(staleness: int) -> str | None:
    if staleness >= 0:
        return None
    return f"it began from {-staleness} results that are not merged yet"


def _loss_of(outcome: Trained) -> float | None:
    held_out = outcome.held_out
    return None if held_out is None else held_out.total / held_out.count


def _fold_other(draft: _Draft, arrival: Arrival, outcome: Outcome | None) -> None:
    """Count a result that is not merged into the server copy."""
    if isinstance(outcome, Failed):
        draft.failed.append(_mishap(draft, arrival, "failed", outcome.error))
    elif isinstance(outcome, Evaluated):
        draft.evaluated.append(arrival.set_aside("evaluated"))
        draft.head = count_evaluated(draft.head, arrival.item, outcome.sums)
    else:
        draft.initialized = arrival
        draft.head = count_merged(draft.head, arrival.item)


def _mishap(
    draft: _Draft, arrival: Arrival, cause: Cause, reason: str, norm: float | None = None
) -> SetAside:
    """Count a mishap in the draft, and return the ledger's row for it."""
    row = arrival.set_aside(reason)
    mishap = Mishap(cause, row.attempt, row.reason, row.key, draft.now, norm)
    draft.head = count_mishap(draft.head, draft.plan, arrival.item, mishap)
    return row


def _misplaced(head: Head, key: ResultKey, outcome: Outcome | None) -> str | None:
    """Return why this kind of result cannot come from this subtask, or None."""
    if outcome is None:
        return "it has no header"
    if isinstance(outcome, Failed):
        return None
    kind = key.subtask.partition("-")[0]
    expected = {"initialize": "initialized", "train": "trained", "evaluate": "evaluated"}[kind]
    if outcome.kind != expected:
        return f"a result of {kind} must be {expected}, not {outcome.kind}"
    return _other_version(head, key.epoch, outcome) if isinstance(outcome, Evaluated) else None


def _other_version(head: Head, epoch: int, outcome: Evaluated) -> str | None:
    model = next(one.model for one in head.evaluations if one.epoch == epoch)
    if (outcome.version, outcome.commit) == (model.version, model.commit):
        return None
    return f"it evaluated version {outcome.version}, epoch {epoch} was closed by {model.version}"


def _with_version(draft: _Draft, recipe: Recipe, commit: str) -> Head:
    """Return the draft's head, with a new version when the server copy changes."""
    head = draft.head
    if draft.merges:
        head = head.model_copy(update={"tally": recipe.tally})
    if draft.initialized is None and SERVER not in recipe.outputs:
        return head
    version = 0 if head.version is None else head.version + 1
    model = ModelRef(
        version=version, commit=commit, key=ModelKey(head.job, version, commit).render()
    )
    return head.model_copy(update={"version": version, "model": model})


def _facts(draft: _Draft, before: Head, recipe: Recipe) -> dict[str, Any]:
    """Return what the ledger entry records of this batch."""
    initialized = draft.initialized
    facts: dict[str, Any] = {
        "initialized_from": initialized.set_aside("initialized") if initialized else None,
        "refused": tuple(draft.refused),
        "failed": tuple(draft.failed),
        "evaluated": tuple(draft.evaluated),
        "late": tuple(draft.late),
        "compared": tuple(draft.compared),
        "dropped": draft.dropped,
    }
    if draft.merges:
        last = nothing_follows(draft.head, draft.plan)
        facts |= merge_facts(before, draft.merged, recipe, last=last, closes=draft.closes)
    return facts
