"""The port ``Announcer`` on the fake and on moto's SNS, heard by a queue."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from spotgrad.aws.clients import Clients
from spotgrad.aws.sns import SnsTopic
from spotgrad.ports import Announcer
from spotgrad.settings import MissingSetting
from tests.fakes.announcer import FakeAnnouncer

Heard = Callable[[], list[tuple[str, str]]]


@pytest.fixture(params=["fake", "sns"])
def heard(request: pytest.FixtureRequest) -> tuple[Announcer, Heard]:
    if request.param == "fake":
        fake = FakeAnnouncer()
        return fake, lambda: fake.heard
    clients: Clients = request.getfixturevalue("clients")
    sns: Any = clients.sns
    topic = sns.create_topic(Name="contract-announcer")["TopicArn"]
    url = clients.sqs.create_queue(QueueName="contract-announcer")["QueueUrl"]
    attributes = clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    arn = attributes["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)

    def received() -> list[tuple[str, str]]:
        messages = clients.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
        bodies = [json.loads(message["Body"]) for message in messages]
        return [(body["Subject"], body["Message"]) for body in bodies]

    return SnsTopic(clients.sns, topic), received


def test_what_is_announced_is_heard(heard: tuple[Announcer, Heard]) -> None:
    announcer, received = heard
    announcer.announce("digits is RUNNING", '{"state": "RUNNING"}')
    assert received() == [("digits is RUNNING", '{"state": "RUNNING"}')]


def test_a_topic_that_is_not_there_is_a_deployment_to_mend(clients: Clients) -> None:
    topic = SnsTopic(clients.sns, "arn:aws:sns:us-east-1:123456789012:absent")
    with pytest.raises(MissingSetting, match=r"absent.*SPOTGRAD_TOPIC_ARN"):
        topic.announce("subject", "body")
