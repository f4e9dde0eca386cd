from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings

from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.head import (
    ENDED,
    EpochProgress,
    Evaluation,
    EvaluationProgress,
    Head,
    Progress,
)
from spotgrad.protocol.result import Sum
from spotgrad.protocol.subtask import ModelRef
from tests.unit.protocol.documents import models

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MODEL = ModelRef(version=4, commit="cafe0123", key="models/d/00000004-cafe0123/server.safetensors")


def head(**changes: Any) -> Head:
    base: dict[str, Any] = {
        "job": "d",
        "run": "00000001",
        "revision": 3,
        "commit": "cafe0123",
        "ledger": "state/d/ledger/00000003-cafe0123.json",
        "state": "RUNNING",
        "started_at": NOW,
        "updated_at": NOW,
    }
    return Head.model_validate(base | changes)


def evaluation(epoch: int, **metrics: float) -> Evaluation:
    return Evaluation(epoch=epoch, model=MODEL, metrics=metrics)


@settings(max_examples=15)
@given(models(Head))
def test_two_heads_of_different_revisions_never_have_equal_bytes(one: Head) -> None:
    other = one.model_copy(update={"revision": one.revision + 1})
    assert other.to_json() != one.to_json()


def test_an_epoch_is_complete_when_every_subtask_is_merged_or_dead() -> None:
    epoch = EpochProgress(epoch=1, subtasks=3, issued_at=NOW, merged=Bitmap.of([0, 2]))
    assert not epoch.complete
    assert list(epoch.done.members()) == [0, 2]
    finished = epoch.model_copy(update={"dead": Bitmap.of([1])})
    assert finished.complete
    assert list(finished.done.members()) == [0, 1, 2]


def test_refused_or_issued_subtasks_are_not_done() -> None:
    both = Bitmap.of([0, 1])
    epoch = EpochProgress(epoch=1, subtasks=2, issued_at=NOW, issued=both, refused=both)
    assert not epoch.complete


def test_a_subtask_that_died_and_was_merged_after_all_counts_once() -> None:
    epoch = EpochProgress(
        epoch=1, subtasks=2, issued_at=NOW, merged=Bitmap.of([0]), dead=Bitmap.of([0])
    )
    assert not epoch.complete


def test_an_evaluation_is_complete_when_every_shard_has_reported_or_is_dead() -> None:
    begun = EvaluationProgress(
        epoch=1,
        subtasks=2,
        issued_at=NOW,
        model=MODEL,
        sums={1: {"accuracy": Sum(total=3, count=4)}},
    )
    assert list(begun.done.members()) == [1]
    assert not begun.complete
    assert begun.model_copy(update={"dead": Bitmap.of([0])}).complete


def test_what_is_merely_numbered_is_done_when_dead() -> None:
    assert Progress(epoch=0, subtasks=1, issued_at=NOW, dead=Bitmap.of([0])).complete
    assert not Progress(epoch=0, subtasks=1, issued_at=NOW).complete


@pytest.mark.parametrize(
    ("state", "ended"),
    [
        ("PLANNING", False),
        ("RUNNING", False),
        ("PAUSED", False),
        ("SUCCEEDED", True),
        ("DEGRADED", True),
        ("FAILED", True),
        ("CANCELLED", True),
    ],
)
def test_which_states_are_the_end(state: str, ended: bool) -> None:  # noqa: FBT001 - a column of the table
    assert head(state=state).ended is ended
    assert (state in ENDED) is ended


def test_the_latest_value_of_each_metric_is_shown() -> None:
    assert head().metrics == {}
    evaluated = [evaluation(1, accuracy=0.5, loss=2.0), evaluation(2, accuracy=0.75)]
    assert head(evaluated=evaluated).metrics == {"accuracy": 0.75, "loss": 2.0}


def test_shard_sets_travel_as_canonical_strings() -> None:
    epoch = EpochProgress(epoch=1, subtasks=10, issued_at=NOW, merged=Bitmap.of([0, 9]))
    body = head(epochs=[epoch]).to_json()
    assert b'"merged":"201"' in body
    assert Head.from_json(body).epochs == (epoch,)
