import pytest

from infra.local.records import Record, failed_ids, to_record

BATCH: list[Record] = [{"messageId": name} for name in ("a", "b", "c")]
ALL = {"a", "b", "c"}


def test_a_message_looks_as_lambda_shows_it() -> None:
    record = to_record(
        {
            "MessageId": "m",
            "ReceiptHandle": "r",
            "Body": "text",
            "MD5OfBody": "5",
            "Attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "7"},
        },
        queue_arn="arn:aws:sqs:eu-west-1:1:q",
    )
    assert record == {
        "messageId": "m",
        "receiptHandle": "r",
        "body": "text",
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "7"},
        "messageAttributes": {},
        "md5OfBody": "5",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:eu-west-1:1:q",
        "awsRegion": "eu-west-1",
    }


@pytest.mark.parametrize(
    ("response", "failed"),
    [
        (None, set()),
        ({}, set()),
        ({"batchItemFailures": []}, set()),
        ({"batchItemFailures": None}, set()),
        ({"statusCode": 200}, set()),
        ({"batchItemFailures": [{"itemIdentifier": "b"}]}, {"b"}),
        ({"batchItemFailures": [{"itemIdentifier": "b"}, {"itemIdentifier": "b"}]}, {"b"}),
        ({"batchItemFailures": [{"itemIdentifier": "b"}, {"itemIdentifier": "c"}]}, {"b", "c"}),
        ({"batchItemFailures": [{"itemIdentifier": "stranger"}]}, ALL),
        ({"batchItemFailures": [{"itemIdentifier": "b"}, {"itemIdentifier": "stranger"}]}, ALL),
        ({"batchItemFailures": [{"itemIdentifier": ""}]}, ALL),
        ({"batchItemFailures": [{"itemIdentifier": None}]}, ALL),
        ({"batchItemFailures": [{"itemIdentifier": ["b"]}]}, ALL),
        ({"batchItemFailures": [{"id": "b"}]}, ALL),
        ({"batchItemFailures": ["b"]}, ALL),
        ({"batchItemFailures": "b"}, ALL),
        ("done", ALL),
        ([], ALL),
    ],
)
def test_lambdas_rules_for_an_answer(response: object, failed: set[str]) -> None:
    assert failed_ids(response, BATCH, partial=True) == failed


def test_without_partial_failures_every_answer_is_success() -> None:
    response = {"batchItemFailures": [{"itemIdentifier": "b"}]}
    assert failed_ids(response, BATCH, partial=False) == set()
