"""What a step needs goes out, and a step waits for what is out."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotgrad.planning.fold import count_merged, drop, send_again
from spotgrad.planning.issue import outstanding
from spotgrad.planning.large_batch import is_full, is_too_late, shard_samples
from spotgrad.planning.order import shard_order
from spotgrad.planning.rounds import due
from spotgrad.planning.settle import settle
from spotgrad.planning.standing import fault_of, open_items
from spotgrad.protocol.head import Head
from spotgrad.protocol.plan import JobPlan
from tests.builders import SAMPLES, begun, job_plan, names, train
from tests.fakes.clock import START


def plan_of(target: int, shards: int = 6, **merge: Any) -> JobPlan:
    rule = {
        "rule": "dedloc",
        "target_batch_size": target,
        "optimizer": {"name": "sgd", "lr": 0.1},
    }
    return job_plan(shards, merge=rule | merge, epochs=2, evaluate=None)


def collected(head: Head, plan: JobPlan, *, samples: int = SAMPLES) -> Head:
    """The next open subtask's gradient is in the mean; a full batch becomes a step."""
    head = count_merged(head, next(open_items(head)))
    tally = {name: head.tally.get(name, 0.0) for name in ("window", "mass")}
    tally = {"window": tally["window"] + 1, "mass": tally["mass"] + samples}
    head = head.model_copy(update={"tally": tally, "outbox": ()})
    if due(head, plan, START):
        empty = {"window": 0.0, "mass": 0.0}
        head = head.model_copy(update={"tally": empty, "version": (head.version or 0) + 1})
    return settle(head, plan, START)


@pytest.mark.parametrize(("target", "out"), [(1, 1), (10, 1), (11, 2), (25, 3), (60, 6), (999, 6)])
def test_no_more_goes_out_than_the_step_needs(target: int, out: int) -> None:
    assert outstanding(begun(plan_of(target))) == out


def test_where_late_gradients_count_everybody_has_work() -> None:
    assert outstanding(begun(plan_of(10, late="next-step"))) == 6


def test_a_short_contribution_lets_another_subtask_out() -> None:
    plan = plan_of(20)
    head = collected(begun(plan), plan, samples=4)
    assert outstanding(head) == 2  # 4 are in, 10 are out, 6 are wanted
    assert head.version == 0


def test_a_batch_is_full_when_nothing_of_it_is_out() -> None:
    plan = plan_of(15)
    head = begun(plan)
    assert not is_full(head, plan, 15)  # two are out
    one, other = open_items(head)
    head = count_merged(head, one)
    assert not is_full(head, plan, 99)
    head = count_merged(head, other)
    assert is_full(head, plan, 15)
    assert not is_full(head, plan, 14)


def test_where_late_gradients_count_a_batch_is_full_at_its_target() -> None:
    plan = plan_of(15, late="next-step")
    assert is_full(begun(plan), plan, 15)


def test_other_rules_know_no_target() -> None:
    plan = job_plan()
    assert not is_full(begun(plan), plan, 10**9)
    assert not is_too_late(begun(plan).model_copy(update={"version": 9}), plan, 0)


@pytest.mark.parametrize(("late", "base", "too_late"), [
    ("drop", 5, False), ("drop", 4, True), ("next-step", 4, False), ("next-step", 3, True),
])  # fmt: skip
def test_how_late_a_gradient_may_be(late: str, base: int, *, too_late: bool) -> None:
    plan = plan_of(10, late=late)
    head = begun(plan).model_copy(update={"version": 5})
    assert is_too_late(head, plan, base) is too_late


def test_a_batch_goes_on_in_the_next_epoch_and_ends_with_the_job() -> None:
    plan = plan_of(40, shards=3)
    head = begun(plan)
    for _ in range(3):
        head = collected(head, plan)
    assert ([one.epoch for one in head.epochs], head.version) == ([2], 0)
    assert (outstanding(head), head.tally["mass"]) == (1, 30)
    head = collected(head, plan)
    assert (outstanding(head), head.version) == (2, 1)
    for _ in range(2):
        head = collected(head, plan)
    assert head.version == 2  # of 20 samples: what was left
    assert head.epochs == ()


def test_a_full_batch_that_waited_for_a_lost_subtask_is_due_when_that_is_given_up() -> None:
    plan = plan_of(15)
    head = begun(plan)
    one, other = open_items(head)
    head = count_merged(head, one).model_copy(update={"tally": {"window": 1, "mass": 15.0}})
    assert due(head, plan, START) is None
    assert due(drop(head, other), plan, START) == "step"


def test_a_late_gradient_costs_no_retry_and_counts_once() -> None:
    plan = plan_of(10)
    head = begun(plan).model_copy(update={"outbox": ()})
    (one,) = open_items(head)
    again = send_again(head, one, "ab" * 8, START)
    assert names(again.outbox) == names([one])
    assert fault_of(again, one).forgiven == ("ab" * 8,)
    assert (again.counts.late, again.counts.reissued, again.dead) == (1, 1, ())


@settings(max_examples=60)
@given(target=st.integers(1, 80), shards=st.integers(1, 7), data=st.data())
def test_the_samples_of_a_step_do_not_depend_on_the_order_of_arrival(
    target: int, shards: int, data: st.DataObject
) -> None:
    """Steps take the subtasks in the order in which they go out, whoever is first."""
    plan = plan_of(target, shards)
    head, steps, batch = begun(plan), list[set[tuple[int, str]]](), set[tuple[int, str]]()
    while head.epochs:
        one = data.draw(st.sampled_from(sorted(open_items(head), key=lambda it: it.subtask)))
        batch.add((one.epoch, one.subtask))
        mass = head.tally.get("mass", 0.0) + shard_samples(plan, one)
        window = {"window": 1.0, "mass": mass}
        head = count_merged(head, one).model_copy(update={"tally": window, "outbox": ()})
        if due(head, plan, START):
            steps.append(batch)
            batch = set()
            head = head.model_copy(update={"tally": {"window": 0.0, "mass": 0.0}})
        head = settle(head, plan, START)
    order = [train(e, n) for e in (1, 2) for n in shard_order(0, e, shards)]
    per_step = -(-target // SAMPLES)
    wanted = [set(names(order[at : at + per_step])) for at in range(0, len(order), per_step)]
    assert steps == wanted
