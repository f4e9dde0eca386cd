from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from spotgrad.protocol.job import Adam, Budget, JobSpec, Keep, Schedule, Sgd, Stop, Workers
from spotgrad.protocol.merge import VcAsgd
from tests.unit.protocol.documents import job_specs

LEAST: dict[str, Any] = {"name": "d", "task": "m:T", "dataset": "d", "epochs": 1}


@given(job_specs)
def test_a_spec_is_read_back(spec: JobSpec) -> None:
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec


def test_the_defaults_are_those_of_the_contract() -> None:
    spec = JobSpec.model_validate(LEAST)
    assert spec.seed == 0
    assert spec.merge == VcAsgd(alpha="var")
    assert spec.local.precision == "fp32"
    assert spec.schedule == Schedule(issue="barrier", max_epoch_lead=1, max_in_flight=16)
    assert spec.workers == Workers(max=8, subtasks_per_worker=1, spot=True, gpu=0)
    assert spec.retries.model_dump() == {
        "failures": 3,
        "interruptions": 20,
        "refusals": 3,
        "max_dead": 0.05,
    }
    assert spec.keep == Keep(versions="all", results_days=30)
    assert spec.evaluate is not None
    assert spec.evaluate.every_epochs == 1
    assert spec.stop is None
    assert spec.budget is None


@pytest.mark.parametrize("alpha", [0, 1, -0.5, 1.5, float("nan"), float("inf"), True, "vary", None])
def test_alpha_lies_strictly_between_0_and_1_or_is_var(alpha: Any) -> None:
    with pytest.raises(ValidationError, match="alpha"):
        VcAsgd(alpha=alpha)


@pytest.mark.parametrize("alpha", [1e-9, 0.5, 1 - 1e-9, "var"])
def test_alpha_within_its_bounds(alpha: Any) -> None:
    assert VcAsgd(alpha=alpha).alpha == alpha


@pytest.mark.parametrize(
    "task", ["", "m", "m:", ":T", "m:T:U", "m.:T", "../m:T", "m:T()", "m-x:T", "1m:T", "m:T\n"]
)
def test_a_task_is_a_module_and_a_callable(task: str) -> None:
    with pytest.raises(ValidationError, match="task"):
        JobSpec.model_validate(LEAST | {"task": task})


@pytest.mark.parametrize("name", ["", "D", "-d", "d_e", "d/e", "d.e", "é", "d" * 64, "d\n", 7])
def test_a_job_name_is_safe_in_a_key(name: Any) -> None:
    with pytest.raises(ValidationError, match="name"):
        JobSpec.model_validate(LEAST | {"name": name})


def test_optimizers_are_told_apart_by_name() -> None:
    def optimizer(**given: Any) -> Sgd | Adam:
        return JobSpec.model_validate(LEAST | {"local": {"optimizer": given}}).local.optimizer

    assert optimizer(name="sgd", lr=1) == Sgd(name="sgd", lr=1.0)
    assert optimizer(name="adamw", lr=1) == Adam(name="adamw", lr=1.0)
    assert optimizer(name="sgd", lr=1, momentum=0.9, nesterov=True) == Sgd(
        name="sgd", lr=1, momentum=0.9, nesterov=True
    )
    with pytest.raises(ValidationError, match="nesterov needs a momentum above 0"):
        optimizer(name="sgd", lr=1, nesterov=True)


@pytest.mark.parametrize("bounds", [{}, {"at_least": 1, "at_most": 2}])
def test_a_stop_rule_has_one_bound(bounds: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match="needs exactly one of at_least and at_most"):
        Stop.model_validate({"metric": "loss", **bounds})


@pytest.mark.parametrize("deadline", ["6", "0h", "h", "1.5h", "6 h", "-6h", "6h\n", "1000000d"])
def test_a_deadline_is_a_count_and_a_unit(deadline: str) -> None:
    with pytest.raises(ValidationError, match="deadline"):
        Budget(deadline=deadline)


@pytest.mark.parametrize(
    ("deadline", "lasts"),
    [
        (None, None),
        ("45s", timedelta(seconds=45)),
        ("90m", timedelta(minutes=90)),
        ("6h", timedelta(hours=6)),
        ("999999d", timedelta(days=999_999)),
    ],
)
def test_a_deadline_is_a_time_from_the_start(deadline: str | None, lasts: timedelta | None) -> None:
    assert Budget(max_usd=1, deadline=deadline).lasts == lasts


def test_a_budget_has_a_bound() -> None:
    with pytest.raises(ValidationError, match="needs max_usd, deadline or both"):
        Budget()


def test_a_budget_in_money_needs_a_price() -> None:
    with pytest.raises(ValidationError, match=r"budget\.max_usd: 20 .* workers\.usd_per_hour"):
        JobSpec.model_validate(LEAST | {"budget": {"max_usd": 20, "deadline": "6h"}})
    priced = {"budget": {"max_usd": 20}, "workers": {"usd_per_hour": 0.5}}
    assert JobSpec.model_validate(LEAST | priced).budget == Budget(max_usd=20)
    assert JobSpec.model_validate(LEAST | {"budget": {"deadline": "6h"}}).workers == Workers()


@pytest.mark.parametrize("days", [0, 36_501, 1.5, True])
def test_results_are_kept_for_whole_days(days: Any) -> None:
    with pytest.raises(ValidationError, match="results_days"):
        Keep(results_days=days)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"workers": {"subtasks_per_worker": 2}}, "workers.subtasks_per_worker is not supported"),
        ({"evaluate": None, "stop": {"metric": "a", "at_least": 1}}, "stop needs evaluate"),
        ({"local": {"time_slice": "30s"}}, 'local.time_slice needs merge.rule "dedloc"'),
        ({"evaluate": None, "admission": {"held_out": 9}}, "admission.held_out needs evaluate"),
    ],
)
def test_what_this_version_cannot_honour_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        JobSpec.model_validate(LEAST | changes)


def test_a_stop_rule_with_an_evaluation_is_honoured() -> None:
    spec = JobSpec.model_validate(LEAST | {"stop": {"metric": "accuracy", "at_least": 0.97}})
    assert spec.stop == Stop(metric="accuracy", at_least=0.97)


def test_a_quorum_needs_a_third_worker() -> None:
    quorum = {"quorum": {"share": 0.1}}
    spec = JobSpec.model_validate(LEAST | {"admission": quorum, "workers": {"max": 3}})
    assert spec.admission.quorum is not None
    assert spec.admission.quorum.tolerance == 0.25
    with pytest.raises(ValidationError, match=r"at least 3, not 1: where two disagree, a third"):
        JobSpec.model_validate(LEAST | {"admission": quorum, "workers": {"max": 1}})


@pytest.mark.parametrize(
    "wrong",
    [
        {"share": 0},
        {"share": 1.5},
        {"share": 0.1, "tolerance": 0},
        {"share": 0.1, "tolerance": 2},
        {},
    ],
)
def test_a_quorum_is_a_share_and_a_tolerance(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="quorum"):
        JobSpec.model_validate(LEAST | {"admission": {"quorum": wrong}})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"local": {"optimizer": {"name": "adam", "lr": 1}}}, "local.optimizer has no meaning"),
        ({"local": {"passes": 2}}, "local.passes has no meaning"),
        ({"admission": {"held_out": 9}}, "admission.held_out has no meaning"),
        (
            {"admission": {"quorum": {"share": 0.5}}, "workers": {"max": 3}},
            "admission.quorum has no meaning",
        ),
    ],
)
def test_where_workers_send_gradients_their_own_steps_have_no_meaning(
    changes: dict[str, Any], said: str
) -> None:
    optimizer = {"name": "sgd", "lr": 1}
    merge = {"rule": "dedloc", "target_batch_size": 9, "optimizer": optimizer}
    sliced = JobSpec.model_validate(LEAST | {"merge": merge, "local": {"time_slice": "30s"}})
    assert sliced.local.time_slice == "30s"
    with pytest.raises(ValidationError, match=f'{said} under merge.rule "dedloc"'):
        JobSpec.model_validate(LEAST | {"merge": merge} | changes)
