import pytest
from pydantic import ValidationError

from spotgrad.errors import NotOpen
from spotgrad.planning.standing import (
    number_of,
    open_items,
    open_progress,
    progress_of,
    same,
    why_not_open,
    with_progress,
    without,
    work_item,
)
from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.head import EpochProgress, EvaluationProgress, Head, WorkItem
from spotgrad.protocol.result import Sum
from tests.builders import RUN, evaluation, item, job_plan, model_ref, names, planned_head, train
from tests.fakes.clock import START


def a_head() -> Head:
    """Epoch 2: shard 0 merged, 1 dead, 2 out, 3 unissued; evaluation of epoch 1: 0 in, 1 out."""
    epoch = EpochProgress(
        epoch=2,
        subtasks=4,
        issued_at=START,
        issued=Bitmap.of([0, 1, 2]),
        merged=Bitmap.of([0]),
        dead=Bitmap.of([1]),
    )
    evaluated = EvaluationProgress(
        epoch=1,
        subtasks=2,
        issued_at=START,
        issued=Bitmap.of([0, 1]),
        model=model_ref(4),
        sums={0: {"accuracy": Sum(total=1, count=2)}},
    )
    changes = {"state": "RUNNING", "epochs": (epoch,), "evaluations": (evaluated,)}
    return planned_head(job_plan()).model_copy(update=changes)


@pytest.mark.parametrize(
    ("name", "number"), [("initialize", 0), ("train-000012", 12), ("evaluate-000003", 3)]
)
def test_the_number_is_the_shard_and_0_for_initialize(name: str, number: int) -> None:
    assert number_of(item(1, name)) == number


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (train(2, 2), None),
        (evaluation(1, 1), None),
        (train(2, 0), "it is already counted"),
        (evaluation(1, 0), "it is already counted"),
        (train(2, 1), "it is dead"),
        (train(2, 3), "it was never issued"),
        (train(2, 7), "it was never issued"),
        (train(1, 0), "epoch 1 is not open"),
        (train(3, 0), "epoch 3 is not open"),
        (evaluation(2, 0), "epoch 2 is not open"),
        (item(0, "initialize"), "epoch 0 is not open"),
        (item(2, "initialize"), "epoch 2 is not open"),
    ],
)
def test_open_is_what_is_issued_and_neither_counted_nor_dead(
    of: WorkItem, reason: str | None
) -> None:
    assert why_not_open(a_head(), RUN, of) == reason


def test_initialize_is_open_in_epoch_0_and_nothing_else_is() -> None:
    head = planned_head(job_plan())
    assert why_not_open(head, RUN, item(0, "initialize")) is None
    assert why_not_open(head, RUN, train(0, 0)) == "epoch 0 is not open"


def test_another_run_is_not_open_whatever_the_subtask() -> None:
    assert why_not_open(a_head(), "bb" * 8, train(2, 2)) == "it belongs to another run"


@pytest.mark.parametrize("state", ["SUCCEEDED", "DEGRADED", "FAILED", "CANCELLED"])
def test_of_an_ended_job_nothing_is_open(state: str) -> None:
    head = a_head().model_copy(update={"state": state})
    assert why_not_open(head, RUN, train(2, 2)) == f"its job is {state}"
    assert list(open_items(head)) == []


def test_a_name_outside_the_grammar_cannot_be_asked_about() -> None:
    with pytest.raises(ValidationError, match="train-2"):
        item(2, "train-2")


def test_open_items_are_evaluations_first_then_training() -> None:
    assert names(open_items(a_head())) == [(1, "evaluate-000001"), (2, "train-000002")]
    assert names(open_items(planned_head(job_plan()))) == [(0, "initialize")]


def test_open_progress_names_what_is_not_open() -> None:
    assert progress_of(a_head(), train(9, 0)) is None
    with pytest.raises(NotOpen, match="train-000000: epoch 9 is not open"):
        open_progress(a_head(), train(9, 0))


def test_a_change_touches_the_progress_of_its_subtask_alone() -> None:
    head = a_head()
    other = head.epochs[0].model_copy(update={"epoch": 3})
    head = head.model_copy(update={"epochs": (*head.epochs, other)})
    changed = with_progress(head, train(3, 0), merged=Bitmap.of([3]))
    assert changed.epochs == (
        head.epochs[0],
        other.model_copy(update={"merged": Bitmap.of([3])}),
    )
    assert changed.evaluations == head.evaluations
    changed = with_progress(head, evaluation(1, 1), dead=Bitmap.of([1]))
    assert changed.epochs == head.epochs
    assert changed.evaluations[0].dead == Bitmap.of([1])


def test_work_items_are_named_by_the_grammar() -> None:
    assert work_item("initialize", 0, 0) == item(0, "initialize")
    assert work_item("train", 2, 7) == train(2, 7)
    assert work_item("evaluate", 2, 7) == evaluation(2, 7)


def test_rows_of_one_subtask_are_told_by_epoch_and_name() -> None:
    rows = [train(1, 0), train(2, 0), train(1, 1)]
    assert [same(row, train(1, 0)) for row in rows] == [True, False, False]
    assert without(rows, train(1, 0)) == (train(2, 0), train(1, 1))
