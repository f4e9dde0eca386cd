"""``functions.plan`` and ``functions.reconcile`` start workers, on moto's Batch."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from spotgrad.protocol.keys import FleetKey, RefusedKey
from spotgrad.protocol.muster import Muster
from spotgrad.protocol.refusal import Refusal
from tests.contract.fleets import make_fleet
from tests.functions.cloud import JOB, Cloud
from tests.functions.test_reconcile import TICK

Workers = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def workers(cloud: Cloud, clients: Any, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Workers:
    """A fleet for the functions; moto's workers succeed at once, so count those that did."""
    queue, definition = make_fleet(endpoint, cloud.bucket)
    monkeypatch.setenv("SPOTGRAD_WORKER_JOB_QUEUE", queue)
    monkeypatch.setenv("SPOTGRAD_WORKER_JOB_DEFINITION", definition)

    def submitted() -> list[dict[str, Any]]:
        answer = clients.batch.list_jobs(jobQueue=queue, jobStatus="SUCCEEDED")
        return list(answer["jobSummaryList"])

    return submitted


@pytest.fixture
def on_demand(
    cloud: Cloud,
    clients: Any,
    endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Workers:
    """A second queue, for jobs that may not be interrupted."""
    queue, _ = make_fleet(endpoint, f"{cloud.bucket}-on-demand")
    monkeypatch.setenv("SPOTGRAD_ON_DEMAND_JOB_QUEUE", queue)

    def submitted() -> list[dict[str, Any]]:
        answer = clients.batch.list_jobs(jobQueue=queue, jobStatus="SUCCEEDED")
        return list(answer["jobSummaryList"])

    return submitted


def metrics(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_planning_starts_one_worker_for_the_initialization(cloud: Cloud, workers: Workers) -> None:
    cloud.plan(JOB)
    assert len(workers()) == 1
    note = Muster.from_json(cloud.store.get(FleetKey("spot").render()).body)
    assert (note.workers, note.in_vain) == (1, 0)


def test_a_job_that_may_not_be_interrupted_has_its_workers_on_demand(
    cloud: Cloud, workers: Workers, on_demand: Workers
) -> None:
    cloud.call("plan", cloud.created(cloud.upload(workers={"spot": False})))
    assert (len(workers()), len(on_demand())) == (0, 1)
    assert [info.key for info in cloud.store.list("fleet/")] == ["fleet/on_demand.json"]


@pytest.mark.parametrize(
    ("asks", "reason"),
    [
        ({"spot": False}, "job file: workers.spot: false, but this fleet has Spot instances alone"),
        ({"gpu": 2}, "job file: workers.gpu: 2, but a worker of this fleet has 1; ask for at most"),
    ],
)
def test_what_the_fleet_has_not_is_refused_and_no_worker_is_started(
    cloud: Cloud,
    workers: Workers,
    monkeypatch: pytest.MonkeyPatch,
    asks: dict[str, Any],
    reason: str,
) -> None:
    monkeypatch.setenv("SPOTGRAD_WORKER_GPUS", "1")
    cloud.call("plan", cloud.created(cloud.upload(workers=asks)))
    refusal = Refusal.from_json(cloud.store.get(RefusedKey(JOB).render()).body)
    assert refusal.reason.startswith(reason)
    assert workers() == []


def test_a_planner_that_is_told_twice_starts_them_once(cloud: Cloud, workers: Workers) -> None:
    key = cloud.upload()
    for _ in range(2):
        cloud.call("plan", cloud.created(key))
    assert len(workers()) == 1


def test_reconcile_starts_those_for_the_epoch(
    cloud: Cloud, workers: Workers, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.start(JOB)
    capsys.readouterr()
    cloud.call("reconcile", TICK)
    assert len(workers()) == 4
    assert metrics(capsys)["WorkersStarted"] == [3.0]  # the one of planning may still come


def test_a_fleet_that_cannot_be_used_stops_neither(
    cloud: Cloud,
    workers: Workers,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("SPOTGRAD_WORKER_JOB_DEFINITION", "nothing")
    key = cloud.upload()
    assert cloud.call("plan", cloud.created(key)) == {"batchItemFailures": []}
    assert cloud.subtasks() == [(JOB, 0, "initialize")]
    (line,) = [one for one in caplog.records if one.getMessage() == "no workers started"]
    assert "SPOTGRAD_WORKER_JOB_DEFINITION" in vars(line)["reason"]
    assert workers() == []


def test_without_a_fleet_nothing_is_noted(cloud: Cloud) -> None:
    cloud.plan(JOB)
    cloud.call("reconcile", TICK)
    assert [info.key for info in cloud.store.list("fleet/")] == []
