from typing import Any

import pytest

from spotgrad.protocol.head import ENDED, EvaluationProgress, Head
from spotgrad.protocol.result import Sum
from spotgrad.protocol.subtask import ModelRef, Subtask
from tests.worker_image.world import AT, COMMIT, RUN, epoch_progress, head, members
from worker_image.standing import open_evaluation, why_not_open

LATEST = ModelRef(version=3, commit=COMMIT, key="models/tiny-job/3")
OLDER = ModelRef(version=2, commit=COMMIT, key="models/tiny-job/2")


def a_head(**changes: Any) -> Head:
    evaluation: dict[str, Any] = {"epoch": 1, "model": OLDER, "subtasks": 4, "issued_at": AT}
    evaluation["issued"] = members(0, 1, 2, 3)
    evaluation["sums"] = {2: {"loss": Sum(total=1, count=2)}}
    fields: dict[str, Any] = {
        "epochs": (
            epoch_progress(2, subtasks=3, merged=members(1), dead=members(2), refused=members(0)),
            epoch_progress(3, subtasks=3),
        ),
        "evaluations": (EvaluationProgress(**evaluation, dead=members(3)),),
    }
    return head(LATEST, b"model", **(fields | changes))


def subtask(name: str, epoch: int, *, run: str = RUN, model: ModelRef | None = None) -> Subtask:
    return Subtask(job="tiny-job", run=run, epoch=epoch, subtask=name, model=model)


OPEN = [
    subtask("train-000000", 2),
    subtask("train-000002", 3),
    subtask("evaluate-000000", 1),
    subtask("evaluate-000001", 1, model=OLDER),
]


@pytest.mark.parametrize("each", OPEN, ids=lambda each: f"{each.epoch}-{each.subtask}")
def test_what_nobody_has_done_is_open(each: Subtask) -> None:
    assert why_not_open(a_head(), each) is None


@pytest.mark.parametrize("each", OPEN, ids=lambda each: f"{each.epoch}-{each.subtask}")
@pytest.mark.parametrize("state", sorted(ENDED | {"PAUSED"}))
def test_nothing_is_open_in_a_job_that_does_not_run(each: Subtask, state: str) -> None:
    assert why_not_open(a_head(state=state), each) == f"its job is {state}"


@pytest.mark.parametrize(
    ("each", "reason"),
    [
        (subtask("train-000000", 2, run="ffffffffffffffff"), "it belongs to another run"),
        (subtask("train-000001", 2), "already counted"),
        (subtask("train-000002", 2), "dead"),
        (subtask("train-000003", 2), "never issued"),
        (subtask("train-000000", 1), "epoch 1 is not open"),
        (subtask("train-000000", 0), "epoch 0 is not open"),
        (subtask("initialize", 2), "epoch 2 is not open"),
        (subtask("evaluate-000002", 1), "already counted"),
        (subtask("evaluate-000003", 1), "dead"),
        (subtask("evaluate-000000", 2), "epoch 2 is not open"),
        (subtask("evaluate-000000", 1, model=LATEST), "about another version than 2"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.epoch}-{value.subtask}",
)
def test_why_a_subtask_is_not_open(each: Subtask, reason: str) -> None:
    assert reason in (why_not_open(a_head(), each) or "")


def test_initialize_is_open_until_there_is_a_version_even_while_planning() -> None:
    progress = epoch_progress(0, subtasks=1)
    fresh = a_head(state="PLANNING", epochs=(progress,), model=None, version=None, objects={})
    assert why_not_open(fresh, subtask("initialize", 0)) is None
    merged = fresh.model_copy(
        update={"epochs": (epoch_progress(0, subtasks=1, merged=members(0)),)}
    )
    assert "counted" in (why_not_open(merged, subtask("initialize", 0)) or "")


def test_training_waits_for_a_version() -> None:
    assert "no model version" in (
        why_not_open(a_head(model=None), subtask("train-000000", 2)) or ""
    )


def test_the_evaluation_that_a_subtask_is_part_of() -> None:
    assert open_evaluation(a_head(), subtask("evaluate-000000", 1)) == a_head().evaluations[0]
    assert open_evaluation(a_head(), subtask("evaluate-000000", 2)) is None
    assert open_evaluation(a_head(), subtask("train-000000", 1)) is None
