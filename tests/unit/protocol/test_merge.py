"""Merge sections: what stands in them, and what cannot work in a job like this."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from spotgrad.protocol.job import JobSpec
from spotgrad.protocol.merge import Delta, VcAsgd, why_not
from tests.builders import job_plan


def merge_of(**section: Any) -> Any:
    return job_plan(merge=section, workers={"max": 4}).spec.merge


@pytest.mark.parametrize(
    ("rule", "defaults"),
    [
        ("vc-asgd", {"alpha": "var", "start": "live"}),
        ("fedasync", {"alpha": 0.4, "decay": "polynomial", "exponent": 0.5, "start": "live"}),
        ("easgd", {"beta": 0.9, "start": "live"}),
        ("delta", {"eta": None, "force": False}),
        ("dc-asgd", {"correction": None, "adaptive": False, "decay": 0.95}),
        ("damped-delta", {"m": "staleness"}),
        ("delayed-nesterov", {"eta": 0.7, "momentum": 0.9, "every": None, "spread": 0.0}),
        ("fedbuff", {"size": None, "eta": 1.0, "weigh": "results", "exponent": 0.5}),
        ("fedavg", {"deadline": None, "quorum": None, "late": None}),
        ("diloco", {"deadline": None, "eta": 0.7, "momentum": 0.9, "weigh": "results"}),
    ],
)
def test_every_rule_has_defaults_of_its_own(rule: str, defaults: dict[str, Any]) -> None:
    section = merge_of(rule=rule).model_dump()
    common = {"rule": rule, "buffers": "blend", "ema": None}
    assert section.items() >= (common | defaults).items()


def test_without_a_rule_it_is_the_paper_s() -> None:
    assert merge_of(alpha=0.7) == VcAsgd(alpha=0.7)
    assert merge_of() == VcAsgd()


@pytest.mark.parametrize("eta", [0.375, None])
def test_an_eta_up_to_the_bound_is_fine(eta: float | None) -> None:
    assert why_not(Delta(rule="delta", eta=eta), 4, "rolling") is None


def test_an_eta_above_the_bound_has_to_be_forced() -> None:
    said = why_not(Delta(rule="delta", eta=0.376), 4, "barrier")
    assert said is not None
    assert said.startswith("merge.eta: 0.376 is above 1.5/k = 0.375 with k = 4 subtasks in flight")
    assert why_not(Delta(rule="delta", eta=0.376, force=True), 4, "barrier") is None


@pytest.mark.parametrize("rule", ["delta", "dc-asgd"])
def test_the_job_file_refuses_it(rule: str) -> None:
    with pytest.raises(ValidationError, match=r"above 1\.5/k .* or say force: true"):
        job_with(rule=rule, eta=0.5)
    assert merge_of(rule=rule, eta=0.5, force=True).eta == 0.5


def job_with(**section: Any) -> JobSpec:
    job = {"name": "d", "task": "m:T", "dataset": "d", "epochs": 1, "merge": section}
    return JobSpec.model_validate(job)


def test_rounds_need_the_barrier() -> None:
    merge = merge_of(rule="fedavg")
    assert (merge.in_rounds, merge.starts_at_epoch) == (True, True)
    assert why_not(merge, 4, "barrier") is None
    assert why_not(merge, 4, "rolling") == (
        'merge.rule: "fedavg" needs schedule.issue "barrier", not "rolling"'
    )
    assert not VcAsgd().in_rounds


@pytest.mark.parametrize("option", [{"quorum": 0.5}, {"late": "merge"}])
def test_stragglers_need_a_deadline(option: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="needs a deadline: without one a round waits"):
        job_with(rule="fedavg", **option)
    assert merge_of(rule="fedavg", deadline="90s", **option).waits == timedelta(seconds=90)
    assert (merge_of(rule="fedavg").waits, merge_of(rule="fedavg").enough) == (None, 0.8)
    assert merge_of(rule="fedavg", deadline="1m", quorum=1).enough == 1.0


def test_an_epoch_start_needs_the_barrier() -> None:
    merge = VcAsgd(start="epoch")
    assert merge.starts_at_epoch
    assert why_not(merge, 4, "barrier") is None
    assert why_not(merge, 4, "rolling") == (
        'merge.start: "epoch" needs schedule.issue "barrier", not "rolling"'
    )
    assert not Delta(rule="delta").starts_at_epoch
