"""``functions.aggregate``: one pass per job, and only what failed goes back."""

import json
from pathlib import Path

import numpy as np
import pytest

from spotgrad.protocol.head import WorkItem
from spotgrad.protocol.keys import RejectionKey, ResultKey, SpecKey
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.protocol.refusal import Rejection
from spotgrad.protocol.tensors import decode
from spotgrad.settings import MissingSetting
from spotgrad.steps.audit import audit
from spotgrad.steps.chain import walk_back
from spotgrad.steps.documents import read_document
from tests.functions.cloud import JOB, Cloud, failed, forget_functions, sqs_event

OTHER = "other"
EVENTS = Path(__file__).parents[1] / "events"


def merges(cloud: Cloud, job: str) -> list[LedgerEntry]:
    """The ledger entries that merged something, the oldest first."""
    entries = [entry for _, entry in walk_back(cloud.store, cloud.head(job))]
    return [entry for entry in entries[::-1] if entry.merged]


def weight(cloud: Cloud, job: str) -> float:
    body = cloud.store.get(cloud.head(job).objects["server"].key).body
    values: set[float] = set(decode(body).tensors["weight"].ravel().tolist())
    (value,) = values
    return value


def test_results_of_two_jobs_are_merged_in_one_pass_for_each(cloud: Cloud) -> None:
    cloud.start(JOB, OTHER)
    keys = [
        cloud.trained(JOB, 0, 1.0),
        cloud.trained(OTHER, 0, 8.0),
        cloud.trained(JOB, 1, 3.0),
        cloud.trained(JOB, 2, 5.0),
    ]
    assert cloud.call("aggregate", cloud.created(*keys)) == failed()
    (digits,) = merges(cloud, JOB)
    (other,) = merges(cloud, OTHER)
    assert [row.key for row in digits.merged] == [keys[i].render() for i in (0, 2, 3)]
    assert [row.key for row in other.merged] == [keys[1].render()]
    assert (cloud.head(JOB).version, cloud.head(OTHER).version) == (1, 1)
    assert weight(cloud, JOB) == ((0 + 1) / 2 + 3) / 4 + 5 / 2  # epoch 1: alpha is 1/2
    assert weight(cloud, OTHER) == 4.0
    assert audit(cloud.store, JOB).findings == ()


def test_a_job_that_fails_gets_its_own_messages_back(cloud: Cloud) -> None:
    cloud.start(JOB, OTHER)
    keys = [cloud.trained(OTHER, 0), cloud.trained(JOB, 0), cloud.trained(OTHER, 1)]
    cloud.store.put(SpecKey(OTHER).render(), b"damaged")
    forget_functions()
    assert cloud.call("aggregate", cloud.created(*keys)) == failed(0, 2)
    assert len(merges(cloud, JOB)) == 1
    assert merges(cloud, OTHER) == []


def test_a_message_of_several_jobs_goes_back_once_when_one_of_them_fails(cloud: Cloud) -> None:
    cloud.start(JOB, OTHER)
    keys = [cloud.trained(OTHER, 0), cloud.trained(JOB, 0), cloud.trained(OTHER, 1)]
    records = [json.loads(one["body"])["Records"][0] for one in cloud.created(*keys)["Records"]]
    cloud.store.put(SpecKey(OTHER).render(), b"damaged")
    forget_functions()
    event = sqs_event(json.dumps({"Records": records}))
    assert cloud.call("aggregate", event) == failed(0)
    assert len(merges(cloud, JOB)) == 1


def test_what_nobody_can_read_goes_back_alone(cloud: Cloud) -> None:
    cloud.start(JOB)
    good = cloud.created(cloud.trained(JOB, 0))["Records"][0]["body"]
    no_result = cloud.created("results/digits/readme.safetensors")["Records"][0]["body"]
    test_event = (EVENTS / "s3_test_event.json").read_text()
    event = sqs_event("[]", good, no_result, test_event)
    assert cloud.call("aggregate", event) == failed(0, 2)
    assert cloud.head().results_merged == 1


def test_an_event_that_comes_twice_counts_once(cloud: Cloud) -> None:
    cloud.start(JOB)
    event = cloud.created(*[cloud.trained(JOB, 0, 1.0)] * 2)
    assert cloud.call("aggregate", event) == failed()
    assert cloud.call("aggregate", event) == failed()
    assert cloud.head().results_merged == 1
    assert weight(cloud, JOB) == 0.5


def test_moto_encodes_the_slashes_of_a_key(cloud: Cloud) -> None:
    cloud.start(JOB)
    notification = json.loads((EVENTS / "s3_put_moto.json").read_text())
    key = cloud.trained(JOB, 0).render()
    notification["Records"][0]["s3"]["object"]["key"] = key.replace("/", "%2F")
    assert cloud.call("aggregate", sqs_event(json.dumps(notification))) == failed()
    assert cloud.head().results_merged == 1


def test_a_refused_result_is_acknowledged_recorded_and_sent_out_again(cloud: Cloud) -> None:
    cloud.start(JOB)
    cloud.bodies()
    key = cloud.trained(JOB, 0, np.nan)
    assert cloud.call("aggregate", cloud.created(key)) == failed()
    sidecar = RejectionKey(key.job, key.epoch, key.subtask, key.attempt).render()
    assert "'weight' holds nan" in read_document(cloud.store, sidecar, Rejection).reason
    assert cloud.subtasks() == [(JOB, 1, "train-000000")]
    assert cloud.head().results_merged == 0


def test_a_result_of_a_job_that_does_not_exist_is_acknowledged(cloud: Cloud) -> None:
    item = WorkItem(epoch=1, subtask="train-000000")
    key = ResultKey("nobody", item.epoch, item.subtask, "00" * 8)
    assert cloud.call("aggregate", cloud.created(key)) == failed()


def test_a_deployment_without_its_bucket_fails_at_its_cold_start(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lambda then fails every invocation, so that each message comes back and none is lost."""
    cloud.start(JOB)
    event = cloud.created(cloud.trained(JOB, 0))
    forget_functions()
    monkeypatch.delenv("SPOTGRAD_BUCKET")
    with pytest.raises(MissingSetting, match=r"^SPOTGRAD_BUCKET: "):
        cloud.call("aggregate", event)
    assert cloud.head().results_merged == 0
