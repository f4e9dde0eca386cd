"""What moto does not show: answers of AWS. The lookup itself is in tests/contract."""

import json

import pytest
from botocore.stub import Stubber

from spotgrad.aws.clients import make_clients
from spotgrad.aws.dead_letters import dead_letters_of
from spotgrad.errors import Unsupported

URL = "https://sqs.eu-west-1.amazonaws.com/123456789012/subtasks"
ASKED = {"QueueUrl": URL, "AttributeNames": ["RedrivePolicy"]}


@pytest.mark.parametrize("answer", [{}, {"Attributes": {}}])
def test_a_queue_without_a_redrive_policy_has_no_dead_letters(answer: dict[str, object]) -> None:
    client = make_clients().sqs
    with Stubber(client) as stub:
        stub.add_response("get_queue_attributes", answer, ASKED)
        with pytest.raises(Unsupported, match=f"queue {URL} has no dead-letter queue"):
            dead_letters_of(client, URL)


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_the_dead_letters_are_looked_up_in_their_own_account(partition: str) -> None:
    client = make_clients().sqs
    arn = f"arn:{partition}:sqs:eu-west-1:210987654321:graves"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 5})
    there = {"QueueName": "graves", "QueueOwnerAWSAccountId": "210987654321"}
    with Stubber(client) as stub:
        stub.add_response("get_queue_attributes", {"Attributes": {"RedrivePolicy": policy}}, ASKED)
        stub.add_response("get_queue_url", {"QueueUrl": "https://there/graves"}, there)
        assert dead_letters_of(client, URL)._queue_url == "https://there/graves"
        stub.assert_no_pending_responses()
