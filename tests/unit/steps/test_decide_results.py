from datetime import timedelta
from typing import Any

import pytest

from spotgrad.planning.fold import bury, count_merged
from spotgrad.planning.standing import open_items
from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.head import Head, ObjectRef, WorkItem
from spotgrad.protocol.keys import ModelKey, ResultKey
from spotgrad.protocol.ledger import SetAside
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.recipe import Recipe
from spotgrad.protocol.result import (
    Base,
    Evaluated,
    Failed,
    Initialized,
    Outcome,
    ResultMetadata,
    Sum,
    Trained,
)
from spotgrad.steps.arrival import MOST_REASON_CHARACTERS, Arrival
from spotgrad.steps.decide_results import Decision, decide_results
from tests.builders import (
    JOB,
    ROLES,
    RUN,
    begun,
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

LATER = START + timedelta(seconds=7)
COMMIT = "cc" * 8
PLAN = job_plan()
HEAD = begun(PLAN)
INITIALIZE = item(0, "initialize")


def trained(results_merged: int = 0) -> Trained:
    base = Base(version=0, commit="0" * 16, results_merged=results_merged)
    return Trained(base=base, samples=10, roles=ROLES)


def arrival(
    of: WorkItem, outcome: Outcome | None = None, *, attempt: int = 1, **changes: Any
) -> Arrival:
    key = ResultKey(JOB, of.epoch, of.subtask, f"{attempt:016x}")
    metadata = ResultMetadata(
        job=JOB,
        run=changes.pop("run", RUN),
        epoch=of.epoch,
        subtask=of.subtask,
        attempt=key.attempt,
        worker="worker-a",
        outcome=outcome or trained(),
    )
    fields = {"key": key, "sha256": f"{attempt:064x}", "metadata": metadata, "problem": None}
    return Arrival(**{"update_norm": 1.0, **fields, **changes})


def decided(*arrivals: Arrival, head: Head = HEAD, plan: JobPlan = PLAN) -> Decision:
    decision = decide_results(head, plan, arrivals, commit=COMMIT, now=LATER)
    if decision is None:
        raise LookupError("it decided nothing")
    return decision


def nothing(*arrivals: Arrival, head: Head = HEAD) -> bool:
    return decide_results(head, PLAN, arrivals, commit=COMMIT, now=LATER) is None


# --- dropped ------------------------------------------------------------------------------------


def test_no_results_decide_nothing() -> None:
    assert nothing()


@pytest.mark.parametrize(
    "dropped",
    [
        arrival(train(1, 0), run="bb" * 8),
        arrival(train(2, 0)),
        arrival(INITIALIZE, Initialized(roles=ROLES)),
        arrival(evaluation(1)),
        arrival(train(1, 9)),
    ],
)
def test_results_of_another_run_or_of_what_is_not_open_are_dropped(dropped: Arrival) -> None:
    assert nothing(dropped)


def test_results_of_what_is_counted_dead_or_ended_are_dropped() -> None:
    assert nothing(arrival(train(1, 0)), head=count_merged(HEAD, train(1, 0)))
    assert nothing(arrival(train(1, 0)), head=bury(HEAD, train(1, 0), "boom", None))
    assert nothing(arrival(train(1, 0)), head=HEAD.model_copy(update={"state": "CANCELLED"}))


def test_of_two_results_of_one_subtask_the_first_wins() -> None:
    first, second = arrival(train(1, 0), attempt=1), arrival(train(1, 0), attempt=2)
    assert decided(second, first).merged == (second,)
    assert decided(second, first).made.head.results_merged == 1


# --- merged -------------------------------------------------------------------------------------


def test_a_batch_makes_one_version_and_counts_each_result() -> None:
    server = ObjectRef(key="models/old", sha256="0" * 64, size_bytes=1)
    head = HEAD.model_copy(update={"objects": {"server": server}})
    arrivals = [arrival(train(1, shard), attempt=shard + 1) for shard in (3, 0)]
    decision = decided(*arrivals, head=head)
    after, entry = decision.made.head, decision.made.entry
    assert decision.merged == tuple(arrivals)
    assert (after.version, after.results_merged, after.revision) == (1, 2, 1)
    assert after.model is not None
    assert after.model.key == ModelKey(JOB, 1, COMMIT).render()
    assert after.epochs[0].merged == Bitmap.of([0, 3])
    assert after.objects == {"server": server}  # until the merge is done
    assert entry.start == server
    assert [(row.subtask, row.coefficient) for row in entry.merged] == [
        ("train-000003", 0.25),
        ("train-000000", 0.5),
    ]
    assert entry.server_coefficient == decision.recipe.weights("server")["server"] == 0.25
    assert [row.sha256 for row in entry.merged] == [f"{4:064x}", f"{1:064x}"]
    assert (entry.version, entry.results_merged, entry.previous) == (1, 2, head.ledger)


def test_alpha_belongs_to_each_result_s_epoch() -> None:
    plan = job_plan(schedule={"issue": "rolling"})
    head = done(begun(plan), plan, train(1, 0))
    coefficients = decided(arrival(train(2, 0)), arrival(train(1, 1)), head=head, plan=plan)
    # var: 2/3 in epoch 2, then 1/2 in epoch 1
    assert coefficients.recipe.weights("server")["server"] == pytest.approx(1 / 3)
    weights = coefficients.recipe.weights("server")
    assert [weights["client-0"], weights["client-1"]] == pytest.approx([1 / 6, 1 / 2])


def test_staleness_counts_results_and_grows_inside_a_batch() -> None:
    head = HEAD.model_copy(update={"results_merged": 5, "version": 2})
    rows = decided(
        arrival(train(1, 0), trained(2)),
        arrival(train(1, 1), trained(5)),
        arrival(train(1, 2), trained(2)),
        head=head,
    ).made.entry.merged
    assert [row.staleness for row in rows] == [3, 1, 5]


def test_a_result_from_the_future_is_refused() -> None:
    decision = decided(arrival(train(1, 0), trained(2)), arrival(train(1, 1), trained(1)))
    assert [row.reason for row in decision.refused] == [
        "it began from 2 results that are not merged yet",
        "it began from 1 results that are not merged yet",
    ]


def test_a_base_inside_this_very_batch_is_not_the_future() -> None:
    decision = decided(arrival(train(1, 0), trained(0)), arrival(train(1, 1), trained(1)))
    assert [row.staleness for row in decision.made.entry.merged] == [0, 0]


def test_the_norm_gate_remembers_after_each_admission() -> None:
    head = HEAD.model_copy(update={"norms": (1.0,) * 8})
    first, second = arrival(train(1, 0), update_norm=4.0), arrival(train(1, 1), update_norm=16.0)
    third = arrival(train(1, 2), update_norm=65.0)
    decision = decided(first, second, third, head=head)
    assert decision.merged == (first, second)
    assert decision.made.head.norms == (*(1.0,) * 8, 4.0, 16.0)
    assert [row.update_norm for row in decision.made.entry.merged] == [4.0, 16.0]
    (refused,) = decision.refused
    assert "norm is 65: expected at most 64" in refused.reason
    assert decided(second, first, head=head).merged == (first,)


def gated(**admission: Any) -> JobPlan:
    return job_plan(admission=admission)


def test_under_the_median_rule_a_second_opinion_is_believed() -> None:
    plan = gated(norm="median")
    head = HEAD.model_copy(update={"norms": (1.0, 1.0, 1.0)})
    first = decided(arrival(train(1, 0), update_norm=6.0), head=head, plan=plan)
    assert "expected at most 4 (4 x the median of the last 3" in first.refused[0].reason
    refused = first.made.head
    assert refused.faults[0].norms == (6.0,)
    other = arrival(train(1, 1), update_norm=6.0, attempt=2)
    assert decided(other, head=refused, plan=plan).merged == ()  # of another subtask
    longer = arrival(train(1, 0), update_norm=12.5, attempt=2)
    assert decided(longer, head=refused, plan=plan).merged == ()
    second = arrival(train(1, 0), update_norm=11.5, attempt=2)
    assert decided(second, head=refused, plan=plan).merged == (second,)


def test_what_is_refused_for_another_reason_is_no_opinion() -> None:
    damaged = decided(arrival(train(1, 0), problem="nan", update_norm=0.0))
    assert damaged.made.head.faults[0].norms == ()


def test_the_norm_gate_may_be_off() -> None:
    head = HEAD.model_copy(update={"norms": (1.0,) * 20})
    long = arrival(train(1, 0), update_norm=1e6)
    assert decided(long, head=head, plan=gated(norm="off")).merged == (long,)


def with_loss(loss: float | None) -> Trained:
    said = None if loss is None else Sum(total=loss * 256, count=256)
    return trained().model_copy(update={"held_out": said})


def test_a_loss_far_above_the_usual_is_refused_where_the_job_asks_for_it() -> None:
    plan, head = gated(held_out=256), HEAD.model_copy(update={"losses": (0.5,) * 8})
    good, bad = arrival(train(1, 0), with_loss(0.7)), arrival(train(1, 1), with_loss(0.8))
    silent = arrival(train(1, 2), with_loss(None))
    decision = decided(good, bad, silent, head=head, plan=plan)
    assert decision.merged == (good,)
    assert list(decision.made.head.losses) == pytest.approx([0.5] * 8 + [0.7])
    assert [row.reason[:38] for row in decision.refused] == [
        "its loss on held-out samples is 0.8: e",
        "it says no finite loss on held-out sam",
    ]
    assert decided(bad, head=head).merged == (bad,)  # this job asks for none


def test_initialize_makes_version_0_and_counts_no_result() -> None:
    head = planned_head(PLAN)
    decision = decided(arrival(INITIALIZE, Initialized(roles=ROLES)), head=head)
    after, entry = decision.made.head, decision.made.entry
    assert (after.version, after.results_merged, after.state) == (0, 0, "RUNNING")
    assert decision.initialized is not None
    assert entry.initialized_from is not None
    assert entry.initialized_from.key == decision.initialized.key.render()
    assert (entry.start, entry.server_coefficient, entry.merged) == (None, None, ())
    assert entry.closed_epochs == (0,)
    assert set(names(after.outbox)) == set(names(whole(1)))


def test_the_last_merge_closes_the_epoch_and_starts_its_evaluation() -> None:
    head = done(HEAD, PLAN, *whole(1)[:3])
    decision = decided(arrival(train(1, 3)), head=head)
    after = decision.made.head
    assert decision.made.entry.closed_epochs == (1,)
    assert after.evaluations[0].model == after.model
    assert after.outbox[0] == evaluation(1)


def test_what_was_in_the_outbox_is_not_in_the_next_one() -> None:
    head = HEAD.model_copy(update={"outbox": (train(1, 2),)})
    assert decided(arrival(train(1, 0)), head=head).made.head.outbox == ()


# --- refused and failed -------------------------------------------------------------------------


def test_a_refused_result_makes_no_version_and_its_subtask_goes_out_again() -> None:
    decision = decided(arrival(train(1, 0), problem="tensor 'w' holds nan"))
    after, entry = decision.made.head, decision.made.entry
    row = SetAside(
        epoch=1,
        subtask="train-000000",
        attempt=f"{1:016x}",
        key=ResultKey(JOB, 1, "train-000000", f"{1:016x}").render(),
        reason="tensor 'w' holds nan",
    )
    assert decision.refused == entry.refused == (row,)
    assert (after.version, after.model, after.revision) == (0, HEAD.model, 1)
    assert (entry.server, entry.server_coefficient, entry.start) == (None, None, None)
    assert decision.recipe == Recipe()
    assert after.outbox == (train(1, 0),)
    assert after.faults[0].refused == (row.attempt,)
    assert after.reissued[0].at == LATER


def test_the_good_results_beside_a_refused_one_are_merged() -> None:
    bad, good = arrival(train(1, 0), problem="NaN"), arrival(train(1, 1))
    decision = decided(bad, good)
    assert (decision.merged, len(decision.refused)) == ((good,), 1)
    assert decision.made.entry.merged[0].coefficient == 0.5


def test_a_second_attempt_in_the_same_batch_makes_good_for_a_refused_one() -> None:
    bad, good = arrival(train(1, 0), problem="NaN"), arrival(train(1, 0), attempt=2)
    after = decided(bad, good).made.head
    assert (after.outbox, after.faults, after.counts.refused) == ((), (), 1)
    assert after.epochs[0].merged == Bitmap.of([0])


def test_a_mishap_that_is_reported_again_is_dropped() -> None:
    bad = arrival(train(1, 0), problem="NaN")
    boom = arrival(train(1, 1), Failed(error="boom", traceback=""), attempt=2)
    head = decided(bad, boom).made.head
    assert nothing(bad, boom, bad, head=head)
    assert decided(bad, bad).made.head.counts.refused == 1


def test_a_result_without_a_readable_header_counts_against_its_subtask() -> None:
    decision = decided(arrival(train(1, 0), metadata=None, problem="the file is truncated"))
    assert [row.reason for row in decision.refused] == ["the file is truncated"]
    decision = decided(arrival(train(1, 0), metadata=None))
    assert [row.reason for row in decision.refused] == ["it has no header"]


def test_a_failure_is_counted_with_its_error_on_one_line() -> None:
    error = "ValueError: boom\n  at\tbatch 3 " + "x" * 9999
    decision = decided(arrival(train(1, 0), Failed(error=error, traceback="...", batch_idx=3)))
    (row,) = decision.made.entry.failed
    assert row.reason.startswith("ValueError: boom at batch 3 xxx")
    assert len(row.reason) == MOST_REASON_CHARACTERS
    assert decision.made.head.faults[0].failed == (row.attempt,)
    assert (decision.refused, decision.made.head.outbox) == ((), (train(1, 0),))


def test_initialize_and_evaluation_may_fail_as_well() -> None:
    failed = Failed(error="boom", traceback="")
    head = planned_head(PLAN)
    assert decided(arrival(INITIALIZE, failed), head=head).made.head.outbox == (INITIALIZE,)
    head = done(HEAD, PLAN, *whole(1))
    after = decided(arrival(evaluation(1), failed), head=head).made.head
    assert after.outbox == (evaluation(1),)
    assert after.counts.failed == 1


def test_a_subtask_out_of_retries_is_in_the_entry_s_dead() -> None:
    plan = job_plan(retries={"refusals": 0, "max_dead": 1})
    decision = decided(arrival(train(1, 0), problem="NaN"), head=begun(plan), plan=plan)
    (grave,) = decision.made.entry.dead
    assert (grave.subtask, grave.reason) == ("train-000000", "refused 1 times, last: NaN")
    assert grave.evidence == decision.refused[0].key


def test_a_dead_initialize_ends_the_job() -> None:
    plan = job_plan(retries={"failures": 0})
    failed = arrival(INITIALIZE, Failed(error="ImportError: no task", traceback=""))
    made = decided(failed, head=planned_head(plan), plan=plan).made
    assert (made.head.state, made.head.version) == ("FAILED", None)
    assert made.head.reason == "initialize is dead: failed 1 times, last: ImportError: no task"
    assert (made.entry.state, made.entry.closed_epochs) == ("FAILED", ())


# --- evaluation and misplaced kinds -------------------------------------------------------------


def evaluated(version: int, commit: str | None = None) -> Evaluated:
    sums = {"accuracy": Sum(total=9, count=10)}
    return Evaluated(version=version, commit=commit or model_ref(version).commit, sums=sums)


def test_an_evaluation_is_counted_and_changes_no_parameters() -> None:
    head = done(HEAD, PLAN, *whole(1))
    decision = decided(arrival(evaluation(1), evaluated(4)), head=head)
    after, entry = decision.made.head, decision.made.entry
    assert after.metrics == {"accuracy": 0.9}
    assert (after.version, entry.server, entry.start) == (4, None, None)
    assert [row.subtask for row in entry.evaluated] == ["evaluate-000000"]


def test_the_evaluation_of_another_version_is_refused() -> None:
    head = done(HEAD, PLAN, *whole(1))
    decision = decided(
        arrival(evaluation(1), evaluated(3), attempt=1),
        arrival(evaluation(1), evaluated(4, "ee" * 8), attempt=2),
        head=head,
    )
    assert [row.reason for row in decision.refused] == [
        "it evaluated version 3, epoch 1 was closed by 4",
        "it evaluated version 4, epoch 1 was closed by 4",
    ]


@pytest.mark.parametrize(
    ("of", "outcome", "reason"),
    [
        (train(1, 0), evaluated(0), "a result of train must be trained, not evaluated"),
        (
            train(1, 0),
            Initialized(roles=ROLES),
            "a result of train must be trained, not initialized",
        ),
    ],
)
def test_a_result_of_the_wrong_kind_is_refused(of: WorkItem, outcome: Outcome, reason: str) -> None:
    assert [row.reason for row in decided(arrival(of, outcome)).refused] == [reason]


def test_training_cannot_initialize_nor_evaluate() -> None:
    head = planned_head(PLAN)
    assert decided(arrival(INITIALIZE, trained()), head=head).refused[0].reason == (
        "a result of initialize must be initialized, not trained"
    )
    head = done(HEAD, PLAN, *whole(1))
    assert decided(arrival(evaluation(1), trained()), head=head).refused[0].reason == (
        "a result of evaluate must be evaluated, not trained"
    )


GRADIENTS = job_plan(
    merge={
        "rule": "dedloc",
        "target_batch_size": 20,
        "optimizer": {"name": "sgd", "lr": 0.1},
    }
)


@pytest.mark.parametrize(
    ("plan", "changes", "reason"),
    [
        (PLAN, {"gradient": "fp16"}, "it holds a gradient: not what the rule vc-asgd merges"),
        (GRADIENTS, {}, "it holds parameters: not what the rule dedloc merges"),
        (PLAN, {"samples": 11}, "it says 11 samples: its shard has 10"),
        (GRADIENTS, {"samples": 11, "gradient": "fp16"}, "it says 11 samples: its shard has 10"),
    ],
)
def test_what_does_not_fit_the_rule_or_the_shard_is_refused(
    plan: JobPlan, changes: dict[str, Any], reason: str
) -> None:
    head = begun(plan)
    (first, *_) = open_items(head)
    outcome = trained().model_copy(update=changes)
    decision = decide_results(head, plan, [arrival(first, outcome)], commit=COMMIT, now=LATER)
    assert decision is not None
    assert [row.reason for row in decision.refused] == [reason]
    assert decision.merged == ()


def test_a_gradient_of_a_version_left_behind_is_computed_again_at_no_cost() -> None:
    head = begun(GRADIENTS).model_copy(update={"version": 2})
    (first, *_) = open_items(head)
    late = arrival(first, trained().model_copy(update={"gradient": "fp16"}))
    decision = decide_results(head, GRADIENTS, [late], commit=COMMIT, now=LATER)
    assert decision is not None
    entry, after = decision.made.entry, decision.made.head
    assert [row.reason for row in entry.late] == ["it is of version 0, the model is at 2"]
    assert (after.counts.late, after.counts.refused, names(after.outbox)) == (1, 0, names([first]))
    assert decide_results(after, GRADIENTS, [late], commit=COMMIT, now=LATER) is None
