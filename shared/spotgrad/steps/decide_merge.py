"""How a batch of admitted results is merged: what the rule is told, what the ledger keeps of it.

Pure: the rule answers with a recipe, nothing is computed yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.merging.rule import decide
from spotgrad.protocol.head import Head
from spotgrad.protocol.ledger import MergedResult, plain_recipe
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.recipe import SERVER, Closing, Recipe, client
from spotgrad.protocol.result import Trained
from spotgrad.steps.arrival import Arrival


@dataclass(frozen=True)
class Admitted:
    """A training result that the gate let in."""

    arrival: Arrival
    outcome: Trained
    staleness: int


def decide_merge(
    head: Head, plan: JobPlan, batch: Sequence[Admitted], closes: Closing | None = None
) -> Recipe:
    """Return the recipe for ``batch``, an empty one for none where no round ``closes``.

    ``head`` counts the batch already, but has neither its version nor its objects yet.
    """
    if not batch and closes is None:
        return Recipe()
    occasion = Occasion(
        in_flight=plan.spec.in_flight,
        objects=frozenset(head.objects),
        tally=head.tally,
        last=is_last(head, plan),
        closes=closes,
    )
    contributions = [
        Contribution(
            epoch=one.arrival.key.epoch,
            staleness=one.staleness,
            samples=one.outcome.samples,
            behind=(head.version or 0) - one.outcome.base.version,
        )
        for one in batch
    ]
    return decide(plan.spec, occasion, contributions)


def is_last(head: Head, plan: JobPlan) -> bool:
    """Return whether nothing is left to be merged."""
    left = (*head.epochs, *head.late)
    reached = max((one.epoch for one in head.epochs), default=plan.spec.epochs)
    return reached == plan.spec.epochs and all(one.complete for one in left)


def merge_facts(
    before: Head,
    batch: Sequence[Admitted],
    recipe: Recipe,
    *,
    last: bool,
    closes: Closing | None = None,
) -> dict[str, Any]:
    """Return the fields of the ledger entry that say how ``batch`` was merged."""
    weights = recipe.weights(SERVER)
    server = weights.get(SERVER, 0.0)
    clients = [weights.get(client(number), 0.0) for number, _ in enumerate(batch)]
    plain = recipe == plain_recipe(server, clients)
    return {
        "start": before.objects.get(SERVER),
        "objects_before": {name: one for name, one in before.objects.items() if name != SERVER},
        "server_coefficient": server,
        "recipe": None if plain else recipe,
        "last": last,
        "closes": closes,
        "merged": tuple(_row(one, weight) for one, weight in zip(batch, clients, strict=True)),
    }


def _row(one: Admitted, coefficient: float) -> MergedResult:
    arrival, outcome = one.arrival, one.outcome
    return MergedResult(
        epoch=arrival.key.epoch,
        subtask=arrival.key.subtask,
        attempt=arrival.key.attempt,
        key=arrival.key.render(),
        sha256=arrival.sha256,
        samples=outcome.samples,
        staleness=one.staleness,
        base=outcome.base,
        coefficient=coefficient,
        update_norm=arrival.update_norm,
    )
