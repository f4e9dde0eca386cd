"""SQS messages as AWS Lambda shows them to a function, and what its answer says of them. Pure."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the stubs are a development tool
    from mypy_boto3_sqs.type_defs import MessageTypeDef

Record = dict[str, Any]
"""One entry of an SQS event's ``Records``."""


def to_record(message: "MessageTypeDef", *, queue_arn: str) -> Record:
    """Return the received message in the shape that a function sees."""
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": dict(message.get("Attributes", {})),
        "messageAttributes": {},
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": queue_arn.split(":")[3],
    }


def failed_ids(response: object, records: Sequence[Record], *, partial: bool) -> set[str]:
    """Return the ids of the messages that must stay in the queue.

    Lambda's rules: no answer, or none failed, is success; an identifier that is empty or not of
    this batch, or an answer of another shape, fails the whole batch.
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html

    Args:
        response: what the function returned.
        records: the batch that it was given.
        partial: whether the event source reports batch item failures; else any answer is success.
    """
    if not partial or response is None:
        return set()
    everything = {str(record["messageId"]) for record in records}
    if not isinstance(response, Mapping):
        return everything
    failures = response.get("batchItemFailures") or []
    if not isinstance(failures, list):
        return everything
    failed = [_identifier(item) for item in failures]
    named = {name for name in failed if name in everything}
    return named if len(named) == len(set(failed)) else everything


def _identifier(item: object) -> str:
    name = item.get("itemIdentifier") if isinstance(item, Mapping) else None
    return name if isinstance(name, str) else ""
