from datetime import timedelta
from typing import Any

import pytest

from spotgrad.planning.fold import count_evaluated, count_merged
from spotgrad.planning.settle import mean_metrics, met, published, settle
from spotgrad.planning.standing import open_items
from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.head import Head
from spotgrad.protocol.job import Stop
from spotgrad.protocol.result import Sum
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
    sums,
    train,
    whole,
)
from tests.fakes.clock import START

LATER = START + timedelta(seconds=7)


def opened(head: Head) -> list[int]:
    return [progress.epoch for progress in head.epochs]


# --- epochs -------------------------------------------------------------------------------------


def test_a_job_begins_with_initialize_alone() -> None:
    head = planned_head(job_plan())
    assert (head.state, opened(head), names(head.outbox)) == ("PLANNING", [0], [(0, "initialize")])


def test_the_first_version_opens_epoch_1_and_is_not_evaluated() -> None:
    head = begun(job_plan())
    assert (head.state, opened(head), head.evaluations) == ("RUNNING", [1], ())
    assert head.epochs[0].issued == Bitmap.of(range(4))


def test_a_barrier_opens_the_next_epoch_with_the_last_merge() -> None:
    plan = job_plan()
    head = done(begun(plan), plan, *whole(1)[:3])
    assert opened(head) == [1]
    head = done(head, plan, train(1, 3))
    assert opened(head) == [2]
    assert head.epochs[0].issued == Bitmap.of(range(4))


def test_a_closed_epoch_evaluates_the_version_that_closed_it() -> None:
    plan = job_plan(evaluation_shards=2)
    head = done(begun(plan), plan, *whole(1), train(2, 0))
    (progress,) = head.evaluations
    assert (progress.epoch, progress.subtasks) == (1, 2)
    assert progress.model == model_ref(4)
    assert head.version == 5
    assert progress.issued == Bitmap.of([0, 1])


def test_evaluations_and_the_next_epoch_go_out_together() -> None:
    plan = job_plan()
    head = done(begun(plan), plan, *whole(1)[:3])
    head = settle(count_merged(head, train(1, 3)), plan, LATER)
    assert names(head.outbox)[0] == (1, "evaluate-000000")
    assert set(names(head.outbox)[1:]) == set(names(whole(2)))


@pytest.mark.parametrize(("every", "evaluated"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (9, [5])])
def test_every_so_many_epochs_and_the_last_are_evaluated(every: int, evaluated: list[int]) -> None:
    plan = job_plan(1, epochs=5, evaluate={"every_epochs": every})
    head = begun(plan)
    for epoch in range(1, 6):
        head = done(head, plan, train(epoch, 0))
        for progress in head.evaluations:
            head = done(head, plan, evaluation(progress.epoch))
    assert [one.epoch for one in head.evaluated] == evaluated
    assert head.state == "SUCCEEDED"


def test_without_evaluation_the_job_ends_with_its_last_merge() -> None:
    plan = job_plan(evaluate=None, evaluation_shards=0)
    head = done(begun(plan), plan, *whole(1), *whole(2))
    assert (head.state, head.evaluated, head.final) == ("SUCCEEDED", (), model_ref(8))


def test_the_job_waits_for_its_last_evaluation() -> None:
    plan = job_plan(epochs=1)
    head = done(begun(plan), plan, *whole(1))
    assert (head.state, opened(head)) == ("RUNNING", [])
    head = done(head, plan, evaluation(1), accuracy=0.75)
    assert (head.state, head.reason, head.final) == ("SUCCEEDED", None, model_ref(4))
    assert head.metrics == {"accuracy": 0.75}


def test_a_rolling_job_opens_as_many_epochs_as_it_may_lead() -> None:
    plan = job_plan(epochs=4, schedule={"issue": "rolling", "max_epoch_lead": 1})
    head = begun(plan)
    assert opened(head) == [1, 2]
    plan = job_plan(epochs=4, schedule={"issue": "rolling", "max_epoch_lead": 2})
    head = begun(plan)
    assert opened(head) == [1, 2, 3]
    head = done(head, plan, train(1, 0), train(2, 0))
    assert [progress.issued.has(0) for progress in head.epochs] == [True, True, True]
    head = done(head, plan, train(3, 0))
    assert opened(head) == [1, 2, 3]
    head = done(head, plan, *whole(1)[1:])
    assert opened(head) == [2, 3, 4]
    assert head.epochs[2].issued == Bitmap.of([0])
    head = done(head, plan, *whole(2)[1:])
    assert opened(head) == [3, 4]


def test_one_batch_may_close_two_epochs() -> None:
    plan = job_plan(2, epochs=3, schedule={"issue": "rolling"})
    head = done(begun(plan), plan, train(1, 0), train(2, 0), train(1, 1))
    assert opened(head) == [2, 3]
    head = count_merged(count_merged(head, train(2, 1)), train(3, 0))
    head = settle(head, plan, LATER)
    assert opened(head) == [3]
    assert [one.epoch for one in head.evaluations] == [1, 2]


def test_a_late_evaluation_is_not_the_latest() -> None:
    plan = job_plan(1, epochs=3)
    head = done(begun(plan), plan, train(1, 0), train(2, 0))
    head = done(head, plan, evaluation(2), accuracy=0.75)
    head = done(head, plan, evaluation(1), accuracy=0.5, loss=2.0)
    assert [one.epoch for one in head.evaluated] == [1, 2]
    assert head.metrics == {"accuracy": 0.75, "loss": 2.0}


def test_what_has_ended_is_left_as_it_is() -> None:
    plan = job_plan()
    head = begun(plan).model_copy(update={"state": "CANCELLED", "outbox": (train(1, 0),)})
    assert settle(head, plan, LATER) is head


def test_a_paused_job_closes_epochs_but_issues_nothing() -> None:
    plan = job_plan()
    head = begun(plan).model_copy(update={"state": "PAUSED"})
    head = done(head, plan, *whole(1))
    assert (head.state, opened(head), head.epochs[0].issued) == ("PAUSED", [2], Bitmap())


# --- metrics and the stop rule ------------------------------------------------------------------


def test_metrics_are_means_over_samples_not_over_shards() -> None:
    parts = {1: {"loss": Sum(total=30, count=10)}, 0: {"loss": Sum(total=10, count=30)}}
    assert mean_metrics(parts) == {"loss": 1.0}


def test_a_metric_that_a_shard_does_not_report_is_the_mean_of_the_others() -> None:
    parts = {0: sums(loss=2.0), 1: sums(accuracy=0.5), 2: {}}
    assert mean_metrics(parts) == {"accuracy": 0.5, "loss": 2.0}


def test_the_order_of_arrival_does_not_show_in_the_last_bits() -> None:
    parts = {n: {"loss": Sum(total=total, count=1)} for n, total in enumerate((1e16, 1.0, -1e16))}
    backwards = dict(reversed(parts.items()))
    assert mean_metrics(backwards) == mean_metrics(parts)


def test_a_mean_that_overflows_is_left_out_of_the_head() -> None:
    parts = {n: {"loss": Sum(total=1e308, count=1), "acc": Sum(total=1, count=2)} for n in range(9)}
    assert mean_metrics(parts) == {"acc": 0.5}


@pytest.mark.parametrize(
    ("stop", "value", "is_met"),
    [
        ({"at_least": 0.9}, 0.9, True),
        ({"at_least": 0.9}, 0.89, False),
        ({"at_most": 0.1}, 0.1, True),
        ({"at_most": 0.1}, 0.11, False),
    ],
)
def test_a_stop_rule_is_met_at_its_bound(stop: Any, value: float, is_met: bool) -> None:  # noqa: FBT001 - a table's column
    assert met(Stop(metric="m", **stop), {"m": value}) is is_met


def test_a_metric_that_is_never_reported_stops_nothing() -> None:
    assert not met(Stop(metric="f1", at_least=0.0), {"accuracy": 1.0})
    plan = job_plan(stop={"metric": "f1", "at_least": 0.0})
    head = done(begun(plan), plan, *whole(1), evaluation(1), *whole(2), evaluation(2))
    assert (head.state, head.reason) == ("SUCCEEDED", None)


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        (
            {"metric": "accuracy", "at_least": 0.97},
            "stop rule met in epoch 1: accuracy 0.98 >= 0.97",
        ),
        ({"metric": "loss", "at_most": 0.25}, "stop rule met in epoch 1: loss 0.125 <= 0.25"),
    ],
)
def test_a_met_stop_rule_makes_the_evaluated_version_final(stop: Any, reason: str) -> None:
    plan = job_plan(epochs=9, stop=stop, schedule={"issue": "rolling"})
    head = done(begun(plan), plan, *whole(1), train(2, 0))
    head = settle(
        count_evaluated(head, evaluation(1), sums(accuracy=0.98, loss=0.125)), plan, LATER
    )
    assert (head.state, head.reason) == ("SUCCEEDED", reason)
    assert (head.final, head.version) == (model_ref(4), 5)
    assert (opened(head), head.outbox, list(open_items(head))) == ([2, 3], (), [])


def test_of_two_evaluations_that_finish_at_once_the_earlier_stops_the_job() -> None:
    plan = job_plan(1, epochs=9, stop={"metric": "accuracy", "at_least": 0.9})
    head = done(begun(plan), plan, train(1, 0), train(2, 0))
    for epoch in (2, 1):
        head = count_evaluated(head, evaluation(epoch), sums(accuracy=0.95))
    head = settle(head, plan, LATER)
    assert head.final == model_ref(1)
    assert [one.epoch for one in head.evaluated] == [1]


# --- the dead -----------------------------------------------------------------------------------


def test_a_dead_shard_lets_the_job_go_on_and_end_degraded_naming_it() -> None:
    plan = job_plan(retries={"max_dead": 1})
    head = dead(begun(plan), plan, train(1, 2), "failed 4 times, last: ValueError: boom")
    assert head.state == "RUNNING"
    head = done(head, plan, train(1, 0), train(1, 1), train(1, 3))
    assert opened(head) == [2]
    head = done(head, plan, evaluation(1), *whole(2), evaluation(2))
    assert (head.state, head.final) == ("DEGRADED", model_ref(7))
    assert head.reason == (
        "1 dead: train-000002 of epoch 1: failed 4 times, last: ValueError: boom"
    )


def test_many_dead_are_counted_and_five_named() -> None:
    plan = job_plan(8, epochs=1, evaluate=None, retries={"max_dead": 8})
    head = begun(plan)
    for shard in range(7):
        head = dead(head, plan, train(1, shard), f"reason {shard}")
    head = done(head, plan, train(1, 7))
    named = ", ".join(f"train-{shard:06d} of epoch 1" for shard in range(5))
    assert (head.state, head.reason) == ("DEGRADED", f"7 dead: {named} and 2 more: reason 6")


def test_a_stop_rule_met_with_a_dead_shard_ends_degraded() -> None:
    plan = job_plan(stop={"metric": "accuracy", "at_least": 0.9}, retries={"max_dead": 1})
    head = dead(begun(plan), plan, train(1, 0))
    head = done(head, plan, *whole(1)[1:])
    head = done(head, plan, evaluation(1), accuracy=0.95)
    assert (head.state, head.reason) == (
        "DEGRADED",
        "stop rule met in epoch 1: accuracy 0.95 >= 0.9; 1 dead: train-000000 of epoch 1: boom",
    )


@pytest.mark.parametrize(
    ("max_dead", "allowed"),
    [(0, 0), (0.05, 1), (0.25, 5), (0.29, 5), (1, 1), (3, 3)],  # shares of 2 x 10 subtasks
)
def test_too_many_dead_fail_the_job(max_dead: float, allowed: int) -> None:
    plan = job_plan(10, retries={"max_dead": max_dead})
    head = begun(plan)
    for shard in range(allowed):
        head = dead(head, plan, train(1, shard))
        assert head.state == "RUNNING"
    head = dead(head, plan, train(1, 9), "last straw")
    assert (head.state, head.outbox) == ("FAILED", ())
    assert head.reason == (f"too many dead subtasks ({allowed + 1}), last train-000009: last straw")
    assert opened(head) == [1]


def test_a_share_is_not_lost_to_binary_fractions() -> None:
    plan = job_plan(100, epochs=1, retries={"max_dead": 0.29}, schedule={"max_in_flight": 100})
    head = begun(plan)
    for shard in range(29):
        head = dead(head, plan, train(1, shard))
    assert head.state == "RUNNING"
    assert dead(head, plan, train(1, 29)).state == "FAILED"


def test_an_evaluation_whose_shards_are_all_dead_has_no_metrics() -> None:
    plan = job_plan(epochs=1, retries={"max_dead": 1})
    head = dead(done(begun(plan), plan, *whole(1)), plan, evaluation(1))
    assert (head.state, head.evaluated) == ("DEGRADED", ())
    assert head.reason == "1 dead: evaluate-000000 of epoch 1: boom"


def test_a_dead_initialize_fails_the_job_without_a_version() -> None:
    plan = job_plan(retries={"max_dead": 9})
    head = dead(planned_head(plan), plan, item(0, "initialize"), "ImportError: digits_task")
    assert (head.state, head.version, head.final) == ("FAILED", None, None)
    assert head.reason == "initialize is dead: ImportError: digits_task"
    assert (head.outbox, opened(head)) == ((), [0])


def test_an_epoch_of_a_job_with_an_ema_is_evaluated_on_the_average() -> None:
    plan = job_plan(merge={"ema": 0.98})
    head = done(begun(plan), plan, *whole(1))
    assert head.model is not None
    wanted = head.model.model_copy(update={"key": head.model.key.replace("server", "ema")})
    assert head.evaluations[0].model == published(head, plan) == wanted
    head = done(head, plan, evaluation(1), *whole(2), evaluation(2))
    assert head.final == published(head, plan)
    assert head.final is not None
    assert head.final.key.endswith("/ema.safetensors")


def test_an_epoch_may_fix_the_version_that_its_subtasks_begin_from() -> None:
    plan = job_plan(merge={"start": "epoch"})
    head = begun(plan)
    assert head.epochs[0].start == head.model
    later = done(head, plan, train(1, 0))
    assert later.epochs[0].start == head.model != later.model
    assert begun(job_plan()).epochs[0].start is None
