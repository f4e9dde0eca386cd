"""``functions.plan``: what becomes of everything that can land under ``jobs/``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spotgrad.protocol.control import Control
from spotgrad.protocol.keys import (
    ActiveKey,
    ControlKey,
    HeadKey,
    JobFileKey,
    ManifestKey,
    RefusedKey,
    SpecKey,
)
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.refusal import Refusal
from spotgrad.protocol.tensors import digest
from spotgrad.steps.documents import find_head, read_document, read_plan
from tests.builders import job_plan, manifest
from tests.functions.cloud import JOB, Cloud, failed, sqs_event

ROOT = Path(__file__).parents[2]
EVENTS = ROOT / "tests" / "events"


@pytest.mark.usefixtures("clients_of_its_own")
def test_the_example_is_planned_from_the_recorded_event_beside_a_test_event(cloud: Cloud) -> None:
    job, content = "digits-cnn", (ROOT / "examples" / "digits" / "job.yaml").read_bytes()
    cloud.store.put(ManifestKey("digits").render(), manifest(16).to_json())
    cloud.store.put(JobFileKey(job).render(), content)
    event = json.loads((EVENTS / "sqs_s3_put.json").read_text())
    assert cloud.call("plan", event) == failed()
    head, plan = cloud.head(job), read_plan(cloud.store, job)
    assert (head.state, head.revision, head.outbox) == ("PLANNING", 1, ())
    assert (plan.run, plan.train_shards, plan.spec.epochs) == (head.run, 16, 10)
    assert plan.job_file_sha256 == digest(content)
    assert [info.key for info in cloud.store.list("active/")] == [ActiveKey(job).render()]
    assert cloud.subtasks() == [(job, 0, "initialize")]


def test_a_test_event_alone_is_acknowledged(cloud: Cloud) -> None:
    body = (EVENTS / "s3_test_event.json").read_text()
    assert cloud.call("plan", sqs_event(body)) == failed()
    assert list(cloud.store.list("")) == []


def test_moto_encodes_the_slashes_of_a_key(cloud: Cloud) -> None:
    key = cloud.upload()
    notification = json.loads((EVENTS / "s3_put_moto.json").read_text())
    notification["Records"][0]["s3"]["object"]["key"] = key.replace("/", "%2F")
    assert cloud.call("plan", sqs_event(json.dumps(notification))) == failed()
    assert cloud.subtasks() == [(JOB, 0, "initialize")]


def test_what_is_no_job_file_is_acknowledged_with_a_warning(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    body = (EVENTS / "s3_put_url_encoded.json").read_text()
    assert cloud.call("plan", sqs_event(body)) == failed()
    (line,) = [record for record in caplog.records if record.getMessage() == "passed over"]
    assert line.levelname == "WARNING"
    assert vars(line)["key"] == "jobs/my job+é.yaml"
    assert list(cloud.store.list("state/")) == []


def test_a_job_file_that_is_gone_again_is_acknowledged(cloud: Cloud) -> None:
    assert cloud.call("plan", cloud.created(JobFileKey("gone").render())) == failed()
    assert find_head(cloud.store, "gone") is None


def test_a_body_that_nobody_can_read_goes_back_alone(cloud: Cloud) -> None:
    good = cloud.created(cloud.upload())["Records"][0]["body"]
    assert cloud.call("plan", sqs_event("{", good, '{"Event": "of somebody else"}')) == failed(0, 2)
    assert cloud.subtasks() == [(JOB, 0, "initialize")]


def test_an_invalid_job_file_is_refused_in_writing(cloud: Cloud) -> None:
    key = cloud.upload(merge={"rule": "vc-asgd", "alpha": 1.5})
    assert cloud.call("plan", cloud.created(key)) == failed()
    refusal = read_document(cloud.store, RefusedKey(JOB).render(), Refusal)
    assert "alpha" in refusal.reason
    assert "1.5" in refusal.reason
    assert refusal.job_file_sha256 == digest(cloud.store.get(key).body)
    assert find_head(cloud.store, JOB) is None
    assert cloud.subtasks() == []


def test_an_upload_whose_event_comes_twice_is_planned_once(cloud: Cloud) -> None:
    event = cloud.created(*[cloud.upload()] * 2)
    assert cloud.call("plan", event) == failed()
    head = cloud.store.get(HeadKey(JOB).render())
    assert cloud.call("plan", event) == failed()
    assert cloud.store.get(HeadKey(JOB).render()) == head
    assert cloud.subtasks() == [(JOB, 0, "initialize")]


def wish(cloud: Cloud, **content: Any) -> dict[str, Any]:
    """The user uploads a control file; return the event of it."""
    key = ControlKey(JOB).render()
    cloud.store.put(key, Control(**content).to_json())
    return cloud.created(key)


def test_a_control_file_pauses_resumes_and_cancels_at_once(cloud: Cloud) -> None:
    cloud.start(JOB)
    assert cloud.call("plan", wish(cloud, want="pause")) == failed()
    assert (cloud.head().state, cloud.head().outbox) == ("PAUSED", ())
    cloud.bodies()
    again = wish(cloud, resume="ab" * 8)
    assert cloud.call("plan", again) == failed()
    assert cloud.subtasks() == [(JOB, 1, f"train-{shard:06d}") for shard in range(4)]
    head = cloud.head()
    assert (head.state, head.resume_token) == ("RUNNING", "ab" * 8)
    assert cloud.call("plan", again) == failed()  # the event comes twice
    assert cloud.head() == head
    assert cloud.call("plan", wish(cloud, want="cancel")) == failed()
    assert (cloud.head().state, cloud.head().final) == ("CANCELLED", head.model)
    assert cloud.subtasks() == []


def test_a_control_file_that_nobody_can_read_or_follow_is_acknowledged(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    cloud.start(JOB)
    head = cloud.head()
    damaged = ControlKey(JOB).render()
    cloud.store.put(damaged, b'{"want": "stop"}')
    unplanned = ControlKey("unplanned").render()
    cloud.store.put(unplanned, Control(want="cancel").to_json())
    event = cloud.created(damaged, unplanned, "jobs/No Job/control.json")
    assert cloud.call("plan", event) == failed()
    assert cloud.head() == head
    passed = [record for record in caplog.records if record.getMessage() == "passed over"]
    assert [vars(record)["key"] for record in passed] == [damaged, "jobs/No Job/control.json"]
    assert "want" in vars(passed[0])["reason"]


def test_while_another_upload_is_planned_the_message_goes_back(cloud: Cloud) -> None:
    other: JobPlan = job_plan(epochs=7)
    cloud.store.put(SpecKey(JOB).render(), other.to_json())
    assert cloud.call("plan", cloud.created(cloud.upload())) == failed(0)
    assert find_head(cloud.store, JOB) is None


def test_a_refusal_is_published_once_for_each_upload(
    cloud: Cloud, heard: Callable[[], list[Any]]
) -> None:
    """Who uploads with nothing but S3 hears of it where jobs are heard of."""
    cloud.store.put(JobFileKey(JOB).render(), b"name: [")
    for _ in range(2):
        assert cloud.call("plan", cloud.created(JobFileKey(JOB).render())) == failed()
    (said,) = heard()
    assert said["job"] == JOB
    assert said["reason"].startswith("job file: ")


def test_a_refusal_stands_though_the_topic_is_gone(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SPOTGRAD_TOPIC_ARN", "arn:aws:sns:us-east-1:123456789012:gone")
    cloud.store.put(JobFileKey(JOB).render(), b"name: [")
    assert cloud.call("plan", cloud.created(JobFileKey(JOB).render())) == failed()
    assert "not announced" in caplog.messages
    assert not read_document(cloud.store, RefusedKey(JOB).render(), Refusal).told
