"""The functions as Lambda starts them: a cold start for each test, on moto by loopback."""

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spotgrad.aws import clients as aws_clients
from spotgrad.aws.clients import Clients, make_clients
from spotgrad.aws.s3 import S3Store
from spotgrad.aws.sqs import SqsQueue
from tests.contract.moto_server import clients_of, served
from tests.functions.cloud import Cloud, forget_functions

LEASE_SECONDS = 120
NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    with served() as url:
        yield url


@pytest.fixture(scope="session")
def clients(endpoint: str) -> Iterator[Clients]:
    with clients_of(endpoint) as made:
        yield made


@pytest.fixture
def heard(
    cloud: Cloud, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[Any]]:
    """A topic for the functions, and what it has said up to now."""
    sns: Any = clients.sns
    topic = sns.create_topic(Name=cloud.bucket)["TopicArn"]
    url = clients.sqs.create_queue(QueueName=f"{cloud.bucket}-ear")["QueueUrl"]
    attributes = clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=attributes["Attributes"]["QueueArn"])
    monkeypatch.setenv("SPOTGRAD_TOPIC_ARN", topic)

    def said() -> list[Any]:
        answer = clients.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        envelopes = [json.loads(one["Body"]) for one in answer.get("Messages", [])]
        return [json.loads(one["Message"]) for one in envelopes]

    return said


@pytest.fixture
def cloud(
    clients: Clients, endpoint: str, monkeypatch: pytest.MonkeyPatch, clean_environment: None
) -> Iterator[Cloud]:
    """An empty bucket and queue, and functions that have yet to be imported."""
    del clean_environment  # it comes first
    bucket = f"functions-{next(NUMBERS)}"
    clients.s3.create_bucket(Bucket=bucket)
    queue_url = clients.sqs.create_queue(QueueName=bucket)["QueueUrl"]
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "SPOTGRAD_BUCKET": bucket,
        "SPOTGRAD_SUBTASKS_QUEUE_URL": queue_url,
        "SPOTGRAD_FUNCTION_TIMEOUT_SECONDS": "60",
        "SPOTGRAD_LEASE_SECONDS": str(LEASE_SECONDS),
        "POWERTOOLS_METRICS_NAMESPACE": "spotgrad",
        "POWERTOOLS_SERVICE_NAME": bucket,  # a logger is kept by this name, with its stream
        "POWERTOOLS_TRACE_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    # Making clients takes longer than anything that a function does with them.
    monkeypatch.setattr(aws_clients, "make_clients", lambda: clients)
    before = {name: module for name, module in sys.modules.items() if name.startswith("functions")}
    forget_functions()
    yield Cloud(bucket, S3Store(clients.s3, bucket), SqsQueue(clients.sqs, queue_url))
    forget_functions()
    sys.modules.update(before)


@pytest.fixture
def clients_of_its_own(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the function make its clients from the environment, as it does on AWS."""
    del cloud  # it lends its own
    made = make_clients()
    monkeypatch.setattr(aws_clients, "make_clients", lambda: made)
    yield
    made.s3.close()
    made.sqs.close()
