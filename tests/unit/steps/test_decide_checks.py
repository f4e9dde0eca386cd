"""Which results are checked, and which count as opinions."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import ResultKey
from spotgrad.protocol.result import Base, Failed, Outcome, ResultMetadata, Trained
from spotgrad.steps.arrival import Arrival
from spotgrad.steps.decide_checks import checked, heard, is_opinion, why_barred
from tests.builders import JOB, RUN, begun, job_plan, model_ref
from tests.fakes.clock import START

MODEL = model_ref(0)
BASE = Base(version=0, commit=MODEL.commit, results_merged=0)
TRAINED = Trained(base=BASE, samples=1, roles={})


def plan_of(share: float | None = 1.0) -> Any:
    quorum = None if share is None else {"share": share, "tolerance": 0.5}
    return job_plan(admission={"quorum": quorum}, workers={"max": 3})


def arrival(worker: str, outcome: Outcome = TRAINED, **changes: Any) -> Arrival:
    key = ResultKey(JOB, 1, "train-000000", "cafe0001")
    metadata = ResultMetadata(
        job=JOB,
        run=RUN,
        epoch=1,
        subtask=key.subtask,
        attempt=key.attempt,
        worker=worker,
        outcome=outcome,
    )
    return replace(Arrival(key, "0" * 64, metadata, None), **({"apart": (0.1,)} | changes))


def with_check(**changes: Any) -> Head:
    plan = plan_of()
    head = begun(plan).model_copy(update=changes)
    return checked(head, plan, arrival("a"), TRAINED, START)


def test_only_a_sampled_result_is_checked() -> None:
    assert with_check().checks[0].model == MODEL
    head = begun(plan_of())
    for share in (None, 1e-12):
        assert checked(head, plan_of(share), arrival("a"), TRAINED, START) == head
    assert checked(head, plan_of(), arrival("a", metadata=None), TRAINED, START) == head


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        (arrival("b"), True),
        (arrival("a"), False),
        (arrival("bad"), False),
        (arrival("b", metadata=None), False),
        (arrival("b", apart=None), False),
        (arrival("b", Failed(error="boom", traceback="boom")), False),
        (
            arrival("b", Trained(base=BASE.model_copy(update={"version": 1}), samples=1, roles={})),
            False,
        ),
    ],
    ids=["another's", "its own", "quarantined", "damaged", "expired", "failed", "other base"],
)
def test_an_opinion_is_another_worker_s_from_the_same_version(
    said: Arrival, *, counts: bool
) -> None:
    head = with_check(dissent={"bad": 2})
    assert is_opinion(head, head.checks[0], said) == counts


@pytest.mark.parametrize(("apart", "left"), [(0.5, 0), (0.51, 1)])
def test_within_the_tolerance_they_agree(apart: float, left: int) -> None:
    head = with_check()
    later = START + timedelta(seconds=5)
    after, _ = heard(head, plan_of(), head.checks[0], arrival("b", apart=(apart,)), later)
    assert len(after.checks) == left


def test_what_is_no_opinion_is_not_heard() -> None:
    head = with_check()
    with pytest.raises(ValueError, match="is no opinion"):
        heard(head, plan_of(None), head.checks[0], arrival("b"), START)


def test_nothing_of_a_quarantined_worker_is_taken() -> None:
    head = with_check(dissent={"bad": 2, "once": 1})
    assert why_barred(head, arrival("bad")) == (
        "worker bad is quarantined: its results were outvoted"
    )
    assert why_barred(head, arrival("once")) is None
    assert why_barred(head, arrival("bad", metadata=None)) is None
