"""``functions.reconcile``: every live job gets its turn, whatever becomes of the one before."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from spotgrad.protocol.keys import ActiveKey, HeadKey, JobFileKey, SpecKey
from tests.functions.cloud import JOB, Cloud

TICK = {"detail-type": "Scheduled Event", "source": "aws.events", "detail": {}}


def active(cloud: Cloud) -> list[str]:
    return [info.key for info in cloud.store.list("active/")]


def test_without_a_live_job_there_is_nothing_to_do(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cloud.call("reconcile", TICK) is None
    assert cloud.subtasks() == []
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert metrics["ActiveJobs"] == [0.0]


def test_a_healthy_job_is_left_alone(cloud: Cloud) -> None:
    cloud.start(JOB)
    before = cloud.store.get(HeadKey(JOB).render())
    cloud.call("reconcile", TICK)
    assert cloud.store.get(HeadKey(JOB).render()) == before
    assert len(cloud.subtasks()) == 4


def test_a_lost_message_is_sent_again(cloud: Cloud) -> None:
    cloud.start(JOB)
    lost = cloud.subtasks()
    cloud.age(JOB, hours=0.5)
    cloud.call("reconcile", TICK)
    assert cloud.subtasks() == lost
    assert len(lost) == 4


def test_one_job_that_fails_does_not_stop_the_next(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    cloud.plan("broken", JOB)
    cloud.subtasks()
    for job in ("broken", JOB):
        cloud.age(job, hours=0.5)
    cloud.store.put(SpecKey("broken").render(), b"damaged")
    assert cloud.call("reconcile", TICK) is None
    assert cloud.subtasks() == [(JOB, 0, "initialize")]
    (line,) = [one for one in caplog.records if one.getMessage() == "again at the next tick"]
    assert vars(line)["job"] == "broken"


def test_an_ended_job_is_let_go_an_hour_later(cloud: Cloud) -> None:
    cloud.start(JOB)
    ended = cloud.head().model_copy(update={"state": "CANCELLED"})
    cloud.store.put(HeadKey(JOB).render(), ended.to_json())
    cloud.call("reconcile", TICK)
    assert active(cloud) == [ActiveKey(JOB).render()]
    cloud.age(JOB, hours=1.1)
    cloud.call("reconcile", TICK)
    assert active(cloud) == []


def test_a_new_state_is_published_once(cloud: Cloud, heard: Callable[[], list[Any]]) -> None:
    cloud.start(JOB)
    for _ in range(2):
        cloud.call("reconcile", TICK)
    assert [(one["job"], one["state"]) for one in heard()] == [(JOB, "RUNNING")]


def test_a_topic_that_is_gone_stops_nothing(
    cloud: Cloud,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SPOTGRAD_TOPIC_ARN", "arn:aws:sns:us-east-1:123456789012:gone")
    cloud.start(JOB)
    cloud.call("reconcile", TICK)
    assert "not announced" in caplog.messages
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (metrics["ActiveJobs"], metrics["StalledJobs"]) == ([1.0], [0.0])


def test_what_the_alarms_compare_is_measured(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.upload(budget={"max_usd": 2}, workers={"usd_per_hour": 0.5})
    cloud.call("plan", cloud.created(JobFileKey(JOB).render()))
    old = cloud.head().started_at - timedelta(hours=0.5)
    waiting = cloud.head().model_copy(update={"started_at": old})
    cloud.store.put(HeadKey(JOB).render(), waiting.to_json())
    cloud.call("reconcile", TICK)
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert metrics["StalledJobs"] == [1.0]
    assert metrics["BudgetUsedPercent"] == [0.0]
