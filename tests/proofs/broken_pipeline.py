"""Pieces of the pipeline that are broken on purpose: the machine must catch every one.

Only what nobody else mends is here: an outbox that is never sent, a lost event or a dead worker is
found by reconcile, so that the job as a whole bears an aggregator that forgets to send.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from spotgrad.merging.kernel import Inputs
from spotgrad.planning.leases import Sky
from spotgrad.protocol.head import EpochProgress, Head
from spotgrad.protocol.partial import Partial
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.recipe import CLIENT, Recipe
from spotgrad.protocol.result import Role
from spotgrad.steps import aggregate_results as product
from spotgrad.steps import decide_results as deciding
from spotgrad.steps import reconcile_job as reconciling
from spotgrad.steps import sweep_orphans as sweeping
from spotgrad.steps.model_file import merged_bodies
from tests.proofs.broken import (
    Patch,
    counted_results_are_counted_again,
    head_before_its_ledger_entry,
    head_without_if_match,
)
from worker_image import inputs
from worker_image.partials import furthest


def reconcile_never_issues_again() -> Iterator[Patch]:
    def recover(head: Head, plan: JobPlan, sky: Sky) -> Head:
        del plan, sky
        return head

    yield reconciling, "recover", recover


def a_mishap_counts_each_time_its_event_comes() -> Iterator[Patch]:
    def never(*args: object) -> bool:
        del args
        return False

    yield deciding, "already_counted", never


def an_epoch_closes_when_all_of_it_is_out() -> Iterator[Patch]:
    yield EpochProgress, "complete", property(lambda one: one.issued.count == one.subtasks)


def orphans_are_swept_while_they_are_young() -> Iterator[Patch]:
    """Somebody may be about to commit what is deleted."""
    yield sweeping, "GRACE", timedelta(seconds=-1)


def a_merge_forgets_the_order_of_its_batch() -> Iterator[Patch]:
    """The coefficients of a batch are applied to the wrong results."""

    def reversed_bodies(
        head: Head, recipe: Recipe, inputs: Inputs, roles: Mapping[str, Role]
    ) -> dict[str, bytes]:
        clients = [name for name in inputs if name.startswith(CLIENT)]
        turned = {name: inputs[other] for name, other in zip(clients, clients[::-1], strict=True)}
        return merged_bodies(head, recipe, {**inputs, **turned}, roles)

    yield product, "merged_bodies", reversed_bodies


def a_partial_is_taken_for_more_than_it_is() -> Iterator[Patch]:
    """The batch after the cut is skipped."""

    def further(*args: Any) -> Partial | None:
        found = furthest(*args)
        if found is None:
            return None
        position = found.metadata.position
        later = position.model_copy(update={"batches": position.batches + 1})
        return replace(found, metadata=found.metadata.model_copy(update={"position": later}))

    yield inputs, "furthest", further


BROKEN: dict[Callable[[], Iterator[Patch]], tuple[str, int]] = {
    head_without_if_match: ("not linear", 1),
    counted_results_are_counted_again: ("merged twice", 1),
    head_before_its_ledger_entry: ("does not exist: state/", 1),
    reconcile_never_issues_again: ("no progress", 1),
    a_mishap_counts_each_time_its_event_comes: ("counted twice", 3),
    an_epoch_closes_when_all_of_it_is_out: ("is closed without", 1),
    orphans_are_swept_while_they_are_young: ("does not exist: (models|state)/", 3),
    a_merge_forgets_the_order_of_its_batch: ("audit", 1),
    a_partial_is_taken_for_more_than_it_is: ("is not what training from its base gives", 10),
}
"""Each broken piece, what the machine has to find, and a seed from which it does so soon."""
