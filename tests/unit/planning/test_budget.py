from datetime import timedelta
from typing import Any

import pytest

from spotgrad.planning.budget import cut_short
from spotgrad.planning.issue import issue_next
from spotgrad.planning.settle import settle
from spotgrad.planning.standing import open_items
from spotgrad.protocol.head import Head
from tests.builders import begun, job_plan, model_ref, planned_head, train
from tests.fakes.clock import START

PRICED = {"usd_per_hour": 0.5}
BOTH = job_plan(budget={"max_usd": 20, "deadline": "6h"}, workers=PRICED)
SIX_HOURS = timedelta(hours=6)
SHORT = timedelta(seconds=1)


def running(**changes: Any) -> Head:
    return begun(BOTH).model_copy(update={"outbox": (train(1, 0),)} | changes)


def test_below_both_bounds_nothing_changes() -> None:
    head = running()
    assert cut_short(head, BOTH, 19.99, START + SIX_HOURS - SHORT) == head


def test_a_job_without_a_budget_goes_on_for_ever() -> None:
    plan = job_plan(workers=PRICED)
    head = begun(plan)
    assert cut_short(head, plan, 1e6, START + timedelta(days=10_000)) == head


@pytest.mark.parametrize(
    ("spent", "after", "reason"),
    [
        (20.0, SHORT, "budget of 20 USD reached (20 spent)"),
        (20.3, SHORT, "budget of 20 USD reached (20.3 spent)"),
        (0.0, SIX_HOURS, "deadline of 6h reached"),
        (21.0, 2 * SIX_HOURS, "budget of 20 USD reached (21 spent)"),
    ],
)
def test_a_job_that_reached_a_bound_ends_with_its_latest_version(
    spent: float, after: timedelta, reason: str
) -> None:
    head = cut_short(running(), BOTH, spent, START + after)
    assert (head.state, head.reason) == ("DEGRADED", reason)
    assert head.final == model_ref(0)
    assert head.outbox == ()
    assert list(open_items(head)) == []
    now = START + after
    assert issue_next(head, BOTH, now) == settle(head, BOTH, now) == head


def test_an_unknown_price_reaches_no_budget() -> None:
    head = running()
    assert cut_short(head, BOTH, None, START) == head


def test_without_a_deadline_time_does_not_count() -> None:
    plan = job_plan(budget={"max_usd": 20}, workers=PRICED)
    assert cut_short(running(), plan, 1.0, START + timedelta(days=999)) == running()


def test_a_job_that_has_no_version_by_then_has_failed() -> None:
    head = cut_short(planned_head(BOTH), BOTH, 0.0, START + SIX_HOURS)
    assert (head.state, head.final, head.outbox) == ("FAILED", None, ())
    assert head.reason == "deadline of 6h reached before there was a version"


@pytest.mark.parametrize("state", ["PAUSED", "SUCCEEDED", "CANCELLED"])
def test_a_job_that_does_not_run_is_left_alone(state: str) -> None:
    head = running(state=state)
    assert cut_short(head, BOTH, 99.0, START + SIX_HOURS) == head
