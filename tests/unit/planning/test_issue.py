from datetime import timedelta
from typing import Any

import pytest

from spotgrad.planning.issue import issue_next, outstanding
from spotgrad.planning.order import shard_order
from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.head import EpochProgress, EvaluationProgress, Head
from spotgrad.protocol.plan import JobPlan
from tests.builders import evaluation, job_plan, model_ref, names, planned_head, train
from tests.fakes.clock import START

LATER = START + timedelta(seconds=7)


def epoch(number: int, subtasks: int = 4, **sets: list[int]) -> EpochProgress:
    bitmaps = {name: Bitmap.of(members) for name, members in sets.items()}
    return EpochProgress(epoch=number, subtasks=subtasks, issued_at=START, **bitmaps)


def with_epochs(plan: JobPlan, *epochs: EpochProgress, **changes: object) -> Head:
    update = {"state": "RUNNING", "epochs": epochs, "outbox": (), **changes}
    return planned_head(plan).model_copy(update=update)


def barrier(most: int = 16, **fields: Any) -> JobPlan:
    return job_plan(schedule={"issue": "barrier", "max_in_flight": most}, **fields)


def rolling(most: int = 16) -> JobPlan:
    return job_plan(schedule={"issue": "rolling", "max_in_flight": most})


def test_an_epoch_goes_out_in_its_seeded_order() -> None:
    plan = barrier(seed=5)
    head = issue_next(with_epochs(plan, epoch(1)), plan, LATER)
    assert names(head.outbox) == names(train(1, shard) for shard in shard_order(5, 1, 4))
    assert head.epochs[0].issued == Bitmap.of(range(4))
    assert head.epochs[0].issued_at == LATER


def test_no_more_than_max_in_flight_are_out() -> None:
    plan = barrier(3)
    head = issue_next(with_epochs(plan, epoch(1)), plan, LATER)
    assert (len(head.outbox), outstanding(head)) == (3, 3)
    assert issue_next(head, plan, LATER) == head


def test_what_is_counted_or_dead_makes_room() -> None:
    plan = barrier(2)
    present = epoch(1, issued=[0, 1, 2], merged=[0], dead=[1])
    head = issue_next(with_epochs(plan, present), plan, LATER)
    assert outstanding(with_epochs(plan, present)) == 1
    assert names(head.outbox) == names([train(1, 3)])


def test_too_many_out_already_issue_nothing() -> None:
    plan = barrier(2)
    head = with_epochs(plan, epoch(1, issued=[0, 1, 2]))
    assert issue_next(head, plan, LATER) == head


def test_evaluations_go_out_before_training_and_count_as_out() -> None:
    plan = barrier(2)
    evaluating = EvaluationProgress(
        epoch=1, subtasks=2, issued_at=START, issued=Bitmap.of([0]), model=model_ref(4)
    )
    head = with_epochs(plan, epoch(2), evaluations=(evaluating,))
    assert outstanding(head) == 1
    head = issue_next(head, plan, LATER)
    assert names(head.outbox) == names([evaluation(1, 1)])
    assert head.evaluations[0].issued == Bitmap.of([0, 1])
    assert head.evaluations[0].issued_at == LATER
    assert head.epochs[0].issued == Bitmap()


def test_barrier_issues_the_oldest_open_epoch_alone() -> None:
    plan = barrier()
    head = with_epochs(plan, epoch(1, issued=[0, 1, 2, 3], merged=[0, 1, 2]), epoch(2))
    assert issue_next(head, plan, LATER) == head


def test_rolling_issues_behind_each_shard_that_is_done() -> None:
    plan = rolling()
    head = with_epochs(
        plan,
        epoch(1, issued=[0, 1, 2, 3], merged=[0], dead=[2]),
        epoch(2),
        epoch(3),
    )
    head = issue_next(head, plan, LATER)
    assert set(names(head.outbox)) == set(names([train(2, 0), train(2, 2)]))
    assert head.epochs[2].issued == Bitmap()


def test_rolling_gives_the_older_epoch_the_room() -> None:
    plan = rolling(2)
    head = with_epochs(plan, epoch(1, issued=[0, 1], merged=[0, 1]), epoch(2))
    head = issue_next(head, plan, LATER)
    assert set(names(head.outbox)) == set(names([train(1, 2), train(1, 3)]))


@pytest.mark.parametrize("state", ["PAUSED", "SUCCEEDED", "FAILED"])
def test_a_job_that_is_paused_or_over_issues_nothing(state: str) -> None:
    plan = barrier()
    head = with_epochs(plan, epoch(1), state=state)
    assert issue_next(head, plan, LATER) == head


def test_what_waits_in_the_outbox_stays_there() -> None:
    plan = barrier(4)
    head = with_epochs(plan, epoch(1, issued=[2]), outbox=(train(1, 2),))
    head = issue_next(head, plan, LATER)
    assert head.outbox[0] == train(1, 2)
    assert len(head.outbox) == 4
