"""When a round is over, and who is left behind."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from spotgrad.errors import NotOpen
from spotgrad.planning.fold import count_merged, drop
from spotgrad.planning.rounds import due, leave_behind
from spotgrad.planning.settle import settle
from spotgrad.planning.standing import open_items
from spotgrad.protocol.head import Fault, Head
from spotgrad.protocol.plan import JobPlan
from tests.builders import begun, dead, evaluation, item, job_plan, names, planned_head, train
from tests.fakes.clock import START

LATER = START + timedelta(seconds=90)


def plan_of(**merge: Any) -> JobPlan:
    return job_plan(merge={"rule": "fedavg"} | merge, retries={"max_dead": 4})


def collected(head: Head, *shards: int, epoch: int = 1) -> Head:
    """These results are in the round's mean, and no version was made."""
    for shard in shards:
        head = count_merged(head, train(epoch, shard))
    window = head.tally.get("window", 0.0) + len(shards)
    return head.model_copy(update={"tally": {"window": window}})


def closed(head: Head, plan: JobPlan, now: datetime = START) -> tuple[Head, list[Any]]:
    head, dropped = leave_behind(head, plan)
    head = settle(head.model_copy(update={"tally": {"window": 0.0}}), plan, now)
    return head, names(dropped)


# --- when ---------------------------------------------------------------------------------------


def test_without_a_deadline_a_round_waits_for_everyone() -> None:
    plan = plan_of()
    head = collected(begun(plan), 0, 1, 2)
    assert due(head, plan, START + timedelta(days=30)) is None
    assert due(collected(head, 3), plan, START) == "round"


def test_a_dead_subtask_is_not_waited_for_and_the_epoch_waits_for_its_merge() -> None:
    plan = plan_of()
    head = dead(collected(begun(plan), 0, 1, 2), plan, train(1, 3))
    assert [one.epoch for one in head.epochs] == [1]  # the step that merges it closes it
    assert due(head, plan, START) == "round"
    head, dropped = closed(head, plan)
    assert ([one.epoch for one in head.epochs], dropped) == ([2], [])


def test_a_round_of_dead_subtasks_has_nothing_to_merge() -> None:
    plan = plan_of()
    head = begun(plan)
    for shard in range(4):
        assert due(head, plan, START) is None
        head = dead(head, plan, train(1, shard))
    assert [one.epoch for one in head.epochs] == [2]


@pytest.mark.parametrize(("arrived", "seconds", "over"), [
    (2, 90, False), (3, 89, False), (3, 90, True), (2, 9000, False),
])  # fmt: skip
def test_past_its_deadline_the_quorum_is_enough(arrived: int, seconds: int, *, over: bool) -> None:
    plan = plan_of(deadline="90s", quorum=0.75)
    head = collected(begun(plan), *range(arrived))
    assert (due(head, plan, START + timedelta(seconds=seconds)) == "round") is over


def test_results_of_the_batch_at_hand_count_too() -> None:
    plan = plan_of(deadline="90s", quorum=0.25)
    head = count_merged(begun(plan), train(1, 0))
    assert due(head, plan, LATER) is None
    assert due(head, plan, LATER, results=1) == "round"


def test_no_round_closes_for_time_while_the_job_is_paused_or_for_anything_once_it_ended() -> None:
    plan = plan_of(deadline="90s", quorum=0.25)
    head = collected(begun(plan), 0, 1, 2).model_copy(update={"state": "PAUSED"})
    assert due(head, plan, LATER) is None
    assert due(collected(head, 3), plan, LATER) == "round"
    assert due(head.model_copy(update={"state": "CANCELLED"}), plan, LATER) is None


def test_other_rules_have_no_rounds() -> None:
    plan = job_plan()
    assert due(collected(begun(plan), 0, 1, 2, 3), plan, LATER) is None


# --- who is left --------------------------------------------------------------------------------


def test_stragglers_are_dropped_and_neither_dead_nor_open() -> None:
    plan = plan_of(deadline="90s", quorum=0.5)
    head, dropped = closed(collected(begun(plan), 1, 2), plan)
    assert dropped == [(1, "train-000000"), (1, "train-000003")]
    assert (head.dead, head.late, head.counts.dropped) == ((), (), 2)
    assert {one.epoch for one in open_items(head) if one.subtask.startswith("train")} == {2}


def test_late_ones_stay_open_beside_the_next_round_unless_they_never_went_out() -> None:
    plan = job_plan(
        merge={"rule": "fedavg", "deadline": "90s", "quorum": 0.25, "late": "merge"},
        schedule={"max_in_flight": 3},
    )
    head = begun(plan)
    out = list(head.epochs[0].issued.members())
    (never,) = set(range(4)) - set(out)
    head, dropped = closed(collected(head, out[0]), plan)
    assert dropped == [(1, train(1, never).subtask)]
    (late,) = head.late
    assert (late.epoch, late.start) == (1, begun(plan).epochs[0].start)
    assert names(open_items(head))[1:3] == [(1, train(1, one).subtask) for one in out[1:]]
    # The next round takes the results along, and does not wait for the other one.
    head = collected(head, out[1])
    head = collected(head.model_copy(update={"tally": {}}), *range(4), epoch=2)
    assert due(head, plan, START) == "round"


def test_the_last_round_leaves_nobody_behind_it_but_what_was_redriven() -> None:
    plan = job_plan(
        epochs=2, merge={"rule": "fedavg", "deadline": "90s", "quorum": 0.25, "late": "merge"}
    )
    head, _ = closed(collected(begun(plan), 0), plan)
    fault = Fault(epoch=1, subtask=train(1, 2).subtask, redriven_at=START)
    head = head.model_copy(update={"faults": (fault,)})
    head, dropped = closed(collected(head, 0, 1, 2, epoch=2), plan)
    assert dropped == [(2, "train-000003"), (1, "train-000001"), (1, "train-000003")]
    assert names(open_items(head)) == [(1, "evaluate-000000"), (2, "evaluate-000000"),
                                       (1, "train-000002")]  # fmt: skip
    # Now it alone is left: a version is made of it before the job ends.
    head = collected(head, 2)
    assert due(head, plan, START) == "rest"
    assert settle(head, plan, START).late == head.late
    head, dropped = closed(head, plan)
    assert (head.late, dropped) == (head.late, [])


def test_only_open_training_subtasks_are_dropped() -> None:
    head = begun(plan_of())
    with pytest.raises(NotOpen, match="epoch 2 is not open"):
        drop(head, train(2, 0))
    evaluated = closed(collected(head, 0, 1, 2, 3), plan_of())[0]
    with pytest.raises(NotOpen, match="it is never dropped"):
        drop(evaluated, evaluation(1))


def test_without_an_open_epoch_nobody_is_dropped() -> None:
    plan = plan_of()
    head = begun(plan).model_copy(update={"epochs": ()})
    assert leave_behind(head, plan) == (head, ())
    assert due(planned_head(plan), plan, LATER, results=1) is None
    assert item(0, "initialize") in list(open_items(planned_head(plan)))
