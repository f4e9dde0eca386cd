from datetime import timedelta

import pytest

from spotgrad.errors import NotOpen
from spotgrad.planning.fold import (
    Cause,
    Mishap,
    already_counted,
    bury,
    count_evaluated,
    count_merged,
    count_mishap,
    reissue,
)
from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.head import (
    Counts,
    DeadSubtask,
    EpochProgress,
    EvaluationProgress,
    Fault,
    Head,
    Reissue,
)
from spotgrad.protocol.result import Sum
from tests.builders import evaluation, item, job_plan, model_ref, planned_head, train
from tests.fakes.clock import START

LATER = START + timedelta(seconds=7)
ITEM = train(1, 2)
PLAN = job_plan(retries={"failures": 1, "refusals": 2})


def a_head() -> Head:
    epoch = EpochProgress(epoch=1, subtasks=4, issued_at=START, issued=Bitmap.of(range(4)))
    evaluating = EvaluationProgress(
        epoch=1, subtasks=2, issued_at=START, issued=Bitmap.of([0, 1]), model=model_ref(4)
    )
    changes = {"epochs": (epoch,), "evaluations": (evaluating,), "outbox": ()}
    return planned_head(PLAN).model_copy(update=changes)


def mishap(cause: Cause, number: int) -> Mishap:
    return Mishap(cause, f"{number:016x}", f"reason {number}", f"results/{number}", LATER)


def test_merging_sets_the_shard_s_bit_and_forgets_its_troubles() -> None:
    head = count_mishap(a_head(), PLAN, ITEM, mishap("refused", 1))
    head = reissue(head, train(1, 3), LATER)
    head = count_merged(head, ITEM)
    assert head.epochs[0].merged == Bitmap.of([2])
    assert (head.faults, head.outbox) == ((), (train(1, 3),))
    assert head.reissued == (Reissue(epoch=1, subtask="train-000003", at=LATER),)


def test_initialize_is_merged_as_number_0_of_epoch_0() -> None:
    head = count_merged(planned_head(PLAN), item(0, "initialize"))
    assert head.epochs[0].merged == Bitmap.of([0])
    assert head.epochs[0].complete


def test_an_evaluation_is_noted_by_shard_and_never_merged() -> None:
    sums = {"accuracy": Sum(total=3, count=4)}
    head = count_evaluated(a_head(), evaluation(1, 1), sums)
    assert head.evaluations[0].sums == {1: sums}
    with pytest.raises(NotOpen, match="evaluate-000001 is an evaluation"):
        count_merged(a_head(), evaluation(1, 1))
    with pytest.raises(NotOpen, match="train-000002 is no evaluation"):
        count_evaluated(a_head(), ITEM, sums)


def test_a_mishap_sends_the_subtask_again() -> None:
    head = count_mishap(a_head(), PLAN, ITEM, mishap("refused", 1))
    assert head.outbox == (ITEM,)
    assert head.reissued == (Reissue(epoch=1, subtask=ITEM.subtask, at=LATER),)
    assert head.faults == (Fault(epoch=1, subtask=ITEM.subtask, refused=(f"{1:016x}",)),)
    assert head.counts == Counts(refused=1, failed=0, reissued=1)
    assert head.epochs[0].refused == Bitmap.of([2])
    assert head.epochs[0].dead == Bitmap()


def test_refused_and_failed_are_counted_apart() -> None:
    head = a_head()
    for number, cause in enumerate[Cause](("refused", "failed", "refused")):
        head = count_mishap(head, PLAN, ITEM, mishap(cause, number))
    fault = Fault(
        epoch=1, subtask=ITEM.subtask, refused=(f"{0:016x}", f"{2:016x}"), failed=(f"{1:016x}",)
    )
    assert head.faults == (fault,)
    assert head.dead == ()
    assert head.counts == Counts(refused=2, failed=1, reissued=3)


@pytest.mark.parametrize(("cause", "allowed"), [("failed", 1), ("refused", 2)])
def test_a_subtask_is_dead_when_its_retries_are_used_up(cause: Cause, allowed: int) -> None:
    head = a_head()
    for number in range(allowed):
        head = count_mishap(head, PLAN, ITEM, mishap(cause, number))
        assert head.dead == ()
    head = count_mishap(head, PLAN, ITEM, mishap(cause, 9))
    assert head.dead == (
        DeadSubtask(
            epoch=1,
            subtask=ITEM.subtask,
            reason=f"{cause} {allowed + 1} times, last: reason 9",
            evidence="results/9",
            attempts=(*(f"{number:016x}" for number in range(allowed)), f"{9:016x}"),
        ),
    )
    assert head.epochs[0].dead == Bitmap.of([2])
    assert (head.faults, head.outbox, head.reissued) == ((), (), ())
    assert head.counts.reissued == allowed


def test_an_evaluation_that_fails_too_often_is_dead_too() -> None:
    head = count_mishap(a_head(), PLAN, evaluation(1, 1), mishap("refused", 1))
    assert head.outbox == (evaluation(1, 1),)
    for number in (2, 3):
        head = count_mishap(head, PLAN, evaluation(1, 1), mishap("refused", number))
    assert head.evaluations[0].dead == Bitmap.of([1])
    assert head.epochs[0].dead == Bitmap()


def test_an_attempt_is_known_again_whatever_its_cause() -> None:
    head = count_mishap(a_head(), PLAN, ITEM, mishap("refused", 1))
    head = count_mishap(head, PLAN, ITEM, mishap("failed", 2))
    known = [already_counted(head, ITEM, f"{number:016x}") for number in (1, 2, 3)]
    assert known == [True, True, False]
    assert not already_counted(head, train(1, 3), f"{1:016x}")


def test_sending_twice_leaves_one_in_the_outbox_and_the_later_time() -> None:
    head = reissue(reissue(a_head(), ITEM, START), ITEM, LATER)
    assert head.outbox == (ITEM,)
    assert [one.at for one in head.reissued] == [LATER]
    assert head.counts.reissued == 2


def test_the_dead_are_kept_in_order_with_or_without_evidence() -> None:
    head = bury(bury(a_head(), ITEM, "interrupted 21 times", None), train(1, 0), "refused", "key")
    assert [(one.subtask, one.evidence) for one in head.dead] == [
        ("train-000002", None),
        ("train-000000", "key"),
    ]
    assert head.epochs[0].dead == Bitmap.of([0, 2])
