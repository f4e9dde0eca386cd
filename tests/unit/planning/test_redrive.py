from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotgrad.planning.control import obey
from spotgrad.planning.fold import Mishap, already_counted, bury, count_mishap
from spotgrad.planning.issue import outstanding
from spotgrad.planning.leases import Sighting, Sky, is_lost, recover
from spotgrad.planning.settle import settle
from spotgrad.planning.standing import open_items, why_not_open
from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.control import Control, Redrive, Want
from spotgrad.protocol.head import Head, WorkItem
from spotgrad.protocol.plan import JobPlan
from tests.builders import (
    begun,
    dead,
    done,
    evaluation,
    item,
    job_plan,
    model_ref,
    names,
    planned_head,
    train,
    whole,
)
from tests.fakes.clock import START

MOVES = st.lists(
    st.tuples(st.integers(0, 99), st.sampled_from(["done", "done", "dead", "redrive"])),
    min_size=1,
    max_size=40,
)

LATER = START + timedelta(days=2)
PLAN = job_plan(retries={"max_dead": 9, "failures": 1})
TOKEN = "ab" * 8


def redriven(
    head: Head, *items: WorkItem, plan: JobPlan = PLAN, token: str = TOKEN, want: Want = "run"
) -> Head:
    wish = Redrive(token=token, subtasks=items)
    return obey(head, plan, Control(want=want, redrive=wish), LATER)


def ended(*graves: WorkItem, plan: JobPlan = PLAN) -> Head:
    """A job of two epochs that came to its end without these."""
    head = begun(plan)
    while not head.ended:
        one = next(iter(open_items(head)))
        head = dead(head, plan, one) if one in graves else done(head, plan, one)
        head = head.model_copy(update={"outbox": ()})
    return head


# --- in an open epoch ---------------------------------------------------------------------------


def test_a_dead_subtask_of_an_open_epoch_goes_out_again() -> None:
    head = redriven(dead(begun(PLAN), PLAN, train(1, 3)))
    assert (head.dead, head.late, head.redrive_token) == ((), (), TOKEN)
    assert head.outbox == (train(1, 3),)
    assert why_not_open(head, head.run, train(1, 3)) is None
    assert done(head, PLAN, *whole(1)).epochs[0].epoch == 2


def test_a_wish_is_carried_out_once() -> None:
    head = redriven(dead(begun(PLAN), PLAN, train(1, 3)))
    head = dead(head, PLAN, train(1, 3), "again")
    assert redriven(head) is head
    assert redriven(head, token="cd" * 8).dead == ()


def test_a_wish_with_nothing_to_do_does_not_wait_for_the_next_death() -> None:
    head = redriven(begun(PLAN))
    assert head.redrive_token == TOKEN
    assert len(redriven(dead(head, PLAN, train(1, 3))).dead) == 1


def test_only_those_that_are_named_are_redriven() -> None:
    head = dead(dead(begun(PLAN), PLAN, train(1, 3)), PLAN, train(1, 2))
    head = redriven(head, train(1, 2), train(2, 3))
    assert names(head.dead) == [(1, "train-000003")]
    assert head.outbox == (train(1, 2),)


def test_what_counted_against_it_is_forgiven_and_counts_no_second_time() -> None:
    head = begun(PLAN)
    for attempt in ("00" * 8, "11" * 8):
        mishap = Mishap("failed", attempt, "boom", "key", START)
        head = settle(count_mishap(head, PLAN, train(1, 3), mishap), PLAN, START)
    (grave,) = head.dead
    assert grave.attempts == ("00" * 8, "11" * 8)
    head = redriven(head)
    assert all(already_counted(head, train(1, 3), attempt) for attempt in grave.attempts)
    mishap = Mishap("failed", "22" * 8, "boom", "key", LATER)
    head = settle(count_mishap(head, PLAN, train(1, 3), mishap), PLAN, LATER)
    assert head.dead == ()
    mishap = Mishap("failed", "33" * 8, "boom", "key", LATER)
    head = settle(count_mishap(head, PLAN, train(1, 3), mishap), PLAN, LATER)
    (grave,) = head.dead
    assert grave.reason == "failed 2 times, last: boom"
    assert grave.attempts == ("00" * 8, "11" * 8, "22" * 8, "33" * 8)


def test_interruptions_from_before_are_forgiven_and_say_nothing_of_the_new_message() -> None:
    plan = job_plan(retries={"interruptions": 0, "max_dead": 9})
    head = redriven(dead(begun(plan), plan, train(1, 3)), plan=plan)
    sightings = {(1, "train-000003"): [Sighting(START, None)]}
    now = LATER + timedelta(seconds=1)
    sky = Sky(sightings, [], queue_depth=1, lease_seconds=120, now=now)
    assert not is_lost(head, train(1, 3), sky)
    assert recover(head, plan, sky).dead == ()


def test_no_more_go_out_than_may_be_in_flight() -> None:
    plan = job_plan(retries={"max_dead": 9}, schedule={"max_in_flight": 2})
    head = begun(plan)
    for one in whole(1):
        head = dead(head, plan, one)
    head = redriven(head, plan=plan)
    while not head.ended:
        assert 1 <= outstanding(head) <= 2
        assert settle(head, plan, LATER) == head
        head = done(head, plan, next(iter(open_items(head))))
    assert (head.state, head.final) == ("SUCCEEDED", model_ref(8))


def test_in_a_paused_job_it_waits_for_the_rest() -> None:
    head = obey(dead(begun(PLAN), PLAN, train(1, 3)), PLAN, Control(want="pause"), LATER)
    head = redriven(head, want="pause")
    assert (head.state, head.dead, head.outbox) == ("PAUSED", (), ())
    head = redriven(head)
    assert set(names(head.outbox)) == set(names(whole(1)))


# --- after its epoch ----------------------------------------------------------------------------


def second_epoch(*graves: WorkItem) -> Head:
    """Epoch 1 is closed without these; epoch 2 is out."""
    head = begun(PLAN)
    for one in whole(1):
        head = dead(head, PLAN, one) if one in graves else done(head, PLAN, one)
    return done(head, PLAN, evaluation(1))


def test_a_closed_epoch_stands_apart_and_the_open_one_goes_on() -> None:
    head = redriven(second_epoch(train(1, 2), train(1, 3)), train(1, 3))
    assert [progress.epoch for progress in head.epochs] == [2]
    (late,) = head.late
    assert (late.epoch, late.merged, late.dead) == (1, Bitmap.of([0, 1]), Bitmap.of([2]))
    assert head.outbox == (train(1, 3),)
    assert why_not_open(head, head.run, train(1, 3)) is None
    assert why_not_open(head, head.run, train(1, 2)) == "it is dead"
    assert why_not_open(head, head.run, train(1, 1)) == "it is already counted"
    head = done(head, PLAN, train(1, 3))
    assert (head.late, head.evaluations) == ((), ())
    head = done(head, PLAN, *whole(2))
    assert [progress.epoch for progress in head.evaluations] == [2]


def test_the_job_waits_for_what_is_late() -> None:
    head = redriven(second_epoch(train(1, 3)))
    head = done(head, PLAN, *whole(2), evaluation(2))
    assert (head.state, len(head.late)) == ("RUNNING", 1)
    head = done(head, PLAN, train(1, 3))
    (again,) = head.evaluations
    assert (again.epoch, again.model) == (2, model_ref(8))
    head = done(head, PLAN, evaluation(2), accuracy=0.75)
    assert (head.state, head.final) == ("SUCCEEDED", model_ref(8))
    assert [(one.epoch, one.model.version) for one in head.evaluated] == [(1, 3), (2, 7), (2, 8)]
    assert head.metrics == {"accuracy": 0.75}


def test_what_is_late_waits_for_an_evaluation_that_is_under_way() -> None:
    head = redriven(second_epoch(train(1, 3)))
    head = done(head, PLAN, *whole(2), train(1, 3))
    assert [(one.epoch, one.model) for one in head.evaluations] == [(2, model_ref(7))]
    head = done(head, PLAN, evaluation(2))
    assert [(one.epoch, one.model) for one in head.evaluations] == [(2, model_ref(8))]
    assert done(head, PLAN, evaluation(2)).state == "SUCCEEDED"


def test_what_dies_again_asks_for_no_evaluation() -> None:
    head = redriven(second_epoch(train(1, 3)))
    head = done(head, PLAN, *whole(2), evaluation(2))
    head = dead(head, PLAN, train(1, 3))
    assert (head.state, head.late, head.final) == ("DEGRADED", (), model_ref(7))


# --- after its job ------------------------------------------------------------------------------


def test_a_degraded_job_runs_again_and_succeeds() -> None:
    before = ended(train(1, 3), train(2, 0))
    assert before.state == "DEGRADED"
    head = redriven(before)
    assert (head.state, head.reason, head.final) == ("RUNNING", None, None)
    assert [late.epoch for late in head.late] == [1, 2]
    assert names(head.outbox) == [(1, "train-000003"), (2, "train-000000")]
    head = done(head, PLAN, *list(open_items(head)))
    head = done(head, PLAN, evaluation(2))
    assert (head.state, head.reason, head.final) == ("SUCCEEDED", None, model_ref(8))


def test_without_evaluation_it_ends_with_its_last_merge() -> None:
    plan = job_plan(evaluate=None, retries={"max_dead": 9})
    head = redriven(ended(train(2, 3), plan=plan), plan=plan)
    assert done(head, plan, train(2, 3)).state == "SUCCEEDED"


def test_a_job_that_ended_has_no_use_for_a_wish_that_names_nothing_dead() -> None:
    head = ended(train(1, 3))
    assert redriven(head, train(2, 3)) is head


def test_a_job_that_failed_for_its_dead_goes_on_where_it_stood() -> None:
    plan = job_plan(retries={"max_dead": 1})
    head = done(begun(plan), plan, train(1, 0))
    head = dead(dead(head, plan, train(1, 1)), plan, train(1, 2))
    assert head.state == "FAILED"
    head = redriven(head, train(1, 1), plan=plan)
    assert head.state == "RUNNING"
    assert set(names(head.outbox)) == {(1, "train-000001"), (1, "train-000003")}


def test_a_job_with_too_many_dead_left_fails_again() -> None:
    plan = job_plan(retries={"max_dead": 0})
    head = begun(plan).model_copy(update={"outbox": ()})
    head = bury(bury(head, train(1, 1), "boom", None), train(1, 2), "boom", None)
    head = redriven(settle(head, plan, START), train(1, 1), plan=plan)
    assert (head.state, names(head.dead), head.outbox) == ("FAILED", [(1, "train-000002")], ())
    head = redriven(head, plan=plan, token="cd" * 8)
    assert set(names(head.outbox)) == set(names(whole(1)))


def test_a_job_that_could_not_be_initialized_tries_again() -> None:
    head = dead(planned_head(PLAN), PLAN, item(0, "initialize"))
    assert head.state == "FAILED"
    head = redriven(head)
    assert (head.state, names(head.outbox)) == ("PLANNING", [(0, "initialize")])


# --- evaluations --------------------------------------------------------------------------------


def test_a_dead_part_of_an_open_evaluation_goes_out_again() -> None:
    plan = job_plan(evaluation_shards=2, retries={"max_dead": 9})
    head = dead(done(begun(plan), plan, *whole(1)), plan, evaluation(1, 1))
    head = redriven(head.model_copy(update={"outbox": ()}), plan=plan)
    assert (names(head.outbox), head.dead) == ([(1, "evaluate-000001")], ())


def test_an_evaluation_that_is_over_is_made_anew() -> None:
    plan: Any = job_plan(evaluation_shards=2, retries={"max_dead": 9})
    before = ended(evaluation(1, 0), evaluation(1, 1), plan=plan)
    assert [grave.model for grave in before.dead] == [model_ref(4)] * 2
    head = redriven(before, plan=plan)
    (progress,) = head.evaluations
    assert (progress.epoch, progress.model, progress.begun_at) == (1, model_ref(4), LATER)
    assert names(head.outbox) == [(1, "evaluate-000000"), (1, "evaluate-000001")]
    head = done(head, plan, evaluation(1, 0), evaluation(1, 1))
    assert (head.state, head.final) == ("SUCCEEDED", model_ref(8))
    assert [(one.epoch, one.model.version) for one in head.evaluated] == [(1, 4), (2, 8)]


def test_evaluating_the_last_epoch_again_takes_the_place_of_what_died_there() -> None:
    plan = job_plan(evaluation_shards=2, retries={"max_dead": 9})
    head = redriven(ended(train(2, 3), evaluation(2, 0), plan=plan), train(2, 3), plan=plan)
    head = done(head, plan, train(2, 3))
    assert (head.dead, names(open_items(head))) == (
        (),
        [(2, "evaluate-000000"), (2, "evaluate-000001")],
    )


@pytest.mark.parametrize("named", [(), (train(2, 3), evaluation(2, 0))])
def test_an_evaluation_and_a_subtask_redriven_together(named: tuple[WorkItem, ...]) -> None:
    """The old version is evaluated after all, then the final one."""
    head = redriven(ended(train(2, 3), evaluation(2, 0)), *named)
    head = done(head, PLAN, train(2, 3), evaluation(2))
    assert [(one.epoch, one.model) for one in head.evaluations] == [(2, model_ref(8))]
    assert done(head, PLAN, evaluation(2)).state == "SUCCEEDED"


# --- all of it ----------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    issue=st.sampled_from(["barrier", "rolling"]),
    most=st.integers(1, 7),
    shards=st.integers(1, 4),
    every=st.integers(1, 3),
    moves=MOVES,
)
def test_any_deaths_and_redrives_end_with_each_subtask_merged_once(
    issue: str, most: int, shards: int, every: int, moves: Any
) -> None:
    plan = job_plan(
        shards,
        epochs=3,
        schedule={"issue": issue, "max_in_flight": most},
        evaluate={"every_epochs": every},
        retries={"max_dead": 99},
    )
    head, merged, step = planned_head(plan), [], 0
    while head.state != "SUCCEEDED":
        number, move = moves[step] if step < len(moves) else (0, "done")
        step += 1
        waiting = list(open_items(head))
        assert len(waiting) == outstanding(head) <= most or head.ended
        if head.ended or move == "redrive":
            head = redriven(head, plan=plan, token=f"{step:016x}")
        elif move == "dead":
            head = dead(head, plan, waiting[number % len(waiting)])
        else:
            one = waiting[number % len(waiting)]
            merged += [] if one.subtask.startswith("evaluate") else names([one])
            head = done(head, plan, one)
        assert settle(head, plan, LATER) == head
    trained = names(one for epoch in (1, 2, 3) for one in whole(epoch, shards))
    assert sorted(merged) == [(0, "initialize"), *trained]
    assert (head.dead, head.late, head.faults, head.reissued) == ((), (), (), ())
    assert head.final == model_ref(3 * shards)
    assert head.evaluated[-1].model == head.final
