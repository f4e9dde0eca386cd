import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotgrad.errors import Malformed
from spotgrad.protocol.events import (
    ObjectCreated,
    SqsRecord,
    eventbridge_event,
    objects_created,
    s3_notification,
    sqs_records,
)

EVENTS = Path(__file__).parents[2] / "events"
BUCKET = "spotgrad-example"

keys = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
sizes = st.none() | st.integers(0, 5 * 2**40)


def recorded(name: str) -> str:
    return (EVENTS / f"{name}.json").read_text(encoding="utf-8")


def result(shard: int, size_bytes: int | None = None) -> ObjectCreated:
    key = f"results/digits/000001/train-{shard:06d}/deadbeef.safetensors"
    return ObjectCreated(BUCKET, key, size_bytes)


@pytest.mark.parametrize(
    ("event", "announced"),
    [
        ("s3_put_url_encoded", [ObjectCreated(BUCKET, "jobs/my job+é.yaml", 512)]),
        ("s3_put_moto", [result(3, 57_344)]),
        ("s3_several_records", [result(0, 9_437_184), result(2), result(0, 9_437_184)]),
        ("s3_test_event", []),
        # EventBridge sends the key as it is: nothing in it is an escape.
        ("eventbridge_object_created", [ObjectCreated(BUCKET, "jobs/my job+é%2F.yaml", 512)]),
        ("eventbridge_tags_added", []),
    ],
)
def test_recorded_events(event: str, announced: list[ObjectCreated]) -> None:
    assert objects_created(recorded(event)) == tuple(announced)


def test_a_recorded_lambda_event_is_taken_apart_down_to_its_objects() -> None:
    upload, test_event = sqs_records(json.loads(recorded("sqs_s3_put")))
    assert upload.message_id == "059f36b4-87a3-44ab-83d2-661975830a7d"
    assert objects_created(upload.body) == (ObjectCreated(BUCKET, "jobs/digits-cnn/job.yaml", 512),)
    assert objects_created(test_event.body) == ()


@given(keys, sizes)
def test_a_notification_is_read_back(key: str, size_bytes: int | None) -> None:
    created = (ObjectCreated(BUCKET, key, size_bytes),)
    assert objects_created(s3_notification(BUCKET, key, size_bytes)) == created
    assert objects_created(eventbridge_event(BUCKET, key, size_bytes)) == created


def test_a_notification_encodes_its_key_as_s3_does() -> None:
    record = json.loads(s3_notification(BUCKET, "jobs/my job+é.yaml", 512))["Records"][0]
    assert record["s3"]["object"] == {"key": "jobs/my+job%2B%C3%A9.yaml", "size": 512}
    assert record["eventName"] == "ObjectCreated:Put"


def test_no_records_announce_nothing() -> None:
    assert objects_created('{"Records": []}') == ()
    assert sqs_records({"Records": []}) == ()


def test_a_prefix_before_the_event_name_does_not_hide_it() -> None:
    body = s3_notification(BUCKET, "active/d").replace("ObjectCreated", "s3:ObjectCreated")
    assert objects_created(body) == (ObjectCreated(BUCKET, "active/d"),)


def record(**changes: Any) -> str:
    base = json.loads(s3_notification(BUCKET, "active/d", 1))["Records"][0]
    return json.dumps({"Records": [base | changes]})


def located(bucket: Any, described: Any) -> str:
    return record(s3={"bucket": bucket, "object": described})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", "not JSON"),
        ("jobs/d/job.yaml", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a JSON object"),
        ("null", "not a JSON object"),
        ("{}", "neither an S3 notification"),
        ('{"Event": "s3:OtherEvent"}', "neither an S3 notification"),
        ('{"Records": {}}', "neither an S3 notification"),
        ('{"Type": "Notification", "Message": "{}"}', "neither an S3 notification"),
        ('{"Records": [3]}', "a record that is not of aws:s3"),
        (record(eventSource="aws:sns"), "a record that is not of aws:s3"),
        (record(eventName=3), "no text in 'eventName'"),
        (record(s3=None), "no text in 'name'"),
        (located(None, {"key": "k"}), "no text in 'name'"),
        (located({"name": ""}, {"key": "k"}), "no text in 'name'"),
        (located({"name": "b"}, None), "no text in 'key'"),
        (located({"name": "b"}, {"key": ""}), "no text in 'key'"),
        (located({"name": "b"}, {"key": 3}), "no text in 'key'"),
        (located({"name": "b"}, {"key": "k", "size": -1}), "size -1: not a number of bytes"),
        (located({"name": "b"}, {"key": "k", "size": "1"}), "size '1': not a number of bytes"),
        (located({"name": "b"}, {"key": "k", "size": True}), "size True: not a number of bytes"),
        (located({"name": "b"}, {"key": "jobs/%FF"}), "key 'jobs/%FF': not UTF-8 when decoded"),
        ('{"detail-type": "Object Created"}', "source None: not aws.s3"),
        ('{"detail-type": "Object Created", "source": "mine"}', "source 'mine': not aws.s3"),
        ('{"detail-type": 3, "source": "aws.s3"}', "no text in 'detail-type'"),
        ('{"detail-type": "Object Created", "source": "aws.s3"}', "no text in 'name'"),
    ],
)
def test_what_s3_does_not_send_is_refused_in_one_line(body: str, said: str) -> None:
    with pytest.raises(Malformed, match=said) as caught:
        objects_created(body)
    assert str(caught.value).startswith("event: ")
    assert "\n" not in str(caught.value)


def test_an_empty_body_is_still_a_message() -> None:
    assert sqs_records({"Records": [{"messageId": "m", "body": ""}]}) == (SqsRecord("m", ""),)


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"Records": None},
        {"Records": {}},
        {"Records": [None]},
        {"Records": [{"messageId": "", "body": "b"}]},
        {"Records": [{"messageId": "m"}]},
        {"Records": [{"messageId": "m", "body": {}}]},
    ],
)
def test_what_lambda_does_not_send_is_refused(event: dict[str, Any]) -> None:
    with pytest.raises(Malformed, match="event: no "):
        sqs_records(event)
