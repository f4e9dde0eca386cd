"""The envelopes around "an object was created": S3 -> SQS -> Lambda, and by EventBridge.

An event is a hint about a key, nothing more: no time, size or entity tag in it decides anything.
Invariant: a key leaves here as it stands in the bucket, whatever encoding the envelope used.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn
from urllib.parse import quote_plus, unquote_plus

from spotgrad.errors import Malformed

_CREATED: Final = "ObjectCreated:"


@dataclass(frozen=True)
class ObjectCreated:
    """A whole object was written; the event may come late, twice, or out of order."""

    bucket: str
    key: str
    size_bytes: int | None = None


@dataclass(frozen=True)
class SqsRecord:
    """One message of the batch that Lambda hands to a function; the id names it in a failure."""

    message_id: str
    body: str


def sqs_records(event: Mapping[str, Any]) -> tuple[SqsRecord, ...]:
    """Take a Lambda SQS event apart.

    Source: https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html

    Raises:
        Malformed: this is not such an event.
    """
    records = event.get("Records")
    if not isinstance(records, list):
        _refuse("no list of Records: not an SQS event of Lambda")
    return tuple(
        SqsRecord(_text(record, "messageId"), _text(record, "body", may_be_empty=True))
        for record in records
    )


def objects_created(body: str) -> tuple[ObjectCreated, ...]:
    """Return the objects that a message of an upload or result queue announces.

    The ``s3:TestEvent`` that S3 sends to a new queue, and events other than creation, announce
    none. Duplicates stay: whoever reads the objects has to bear them anyway.

    Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
    and https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html

    Raises:
        Malformed: anything that S3 does not send.
    """
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"event: not JSON: {error}") from error
    if not isinstance(message, dict):
        _refuse("not a JSON object")
    if message.get("Event") == "s3:TestEvent":
        return ()
    if isinstance(message.get("Records"), list):
        return tuple(_notified(record) for record in message["Records"] if _is_creation(record))
    if "detail-type" not in message:
        _refuse("neither an S3 notification, nor S3's EventBridge form, nor s3:TestEvent")
    return _bridged(message)


def s3_notification(bucket: str, key: str, size_bytes: int | None = None) -> str:
    """Return the message body that S3 sends for a created object; twin of ``objects_created``."""
    # AWS leaves "/" as it is; moto writes %2F. A reader has to undo both.
    described: dict[str, Any] = {"key": quote_plus(key, safe="/")}
    if size_bytes is not None:
        described["size"] = size_bytes
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventName": f"{_CREATED}Put",
        "s3": {"s3SchemaVersion": "1.0", "bucket": {"name": bucket}, "object": described},
    }
    return json.dumps({"Records": [record]})


def eventbridge_event(bucket: str, key: str, size_bytes: int | None = None) -> str:
    """Return the message body that EventBridge sends for a created object; the key is plain."""
    described: dict[str, Any] = {"key": key}
    if size_bytes is not None:
        described["size"] = size_bytes
    detail = {"version": "0", "bucket": {"name": bucket}, "object": described}
    return json.dumps({"detail-type": "Object Created", "source": "aws.s3", "detail": detail})


def _refuse(problem: str) -> NoReturn:
    raise Malformed(f"event: {problem}")


def _is_creation(record: Any) -> bool:
    if not isinstance(record, dict) or record.get("eventSource") != "aws:s3":
        _refuse("a record that is not of aws:s3")
    return _text(record, "eventName").removeprefix("s3:").startswith(_CREATED)


def _notified(record: Mapping[str, Any]) -> ObjectCreated:
    created = _created(record.get("s3"))
    try:
        key = unquote_plus(created.key, errors="strict")
    except UnicodeDecodeError as error:
        raise Malformed(f"event: key {created.key!r}: not UTF-8 when decoded") from error
    return ObjectCreated(created.bucket, key, created.size_bytes)


def _bridged(message: Mapping[str, Any]) -> tuple[ObjectCreated, ...]:
    if message.get("source") != "aws.s3":
        _refuse(f"source {message.get('source')!r}: not aws.s3")
    # A rule without a detail-type also forwards "Object Tags Added" and the like.
    if _text(message, "detail-type") != "Object Created":
        return ()
    return (_created(message.get("detail")),)


def _created(value: Any) -> ObjectCreated:
    """Read ``bucket.name``, ``object.key`` and ``object.size``: the same in both envelopes."""
    place = value if isinstance(value, dict) else {}
    described = place.get("object")
    size = described.get("size") if isinstance(described, dict) else None
    if size is not None and (type(size) is not int or size < 0):
        _refuse(f"size {size!r}: not a number of bytes")
    return ObjectCreated(_text(place.get("bucket"), "name"), _text(described, "key"), size)


def _text(value: Any, name: str, *, may_be_empty: bool = False) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, str) or not (found or may_be_empty):
        _refuse(f"no text in {name!r}")
    return found
