"""The queue's contract on ministack: the suite of ``tests/contract``, and what moto cannot show.

ministack refuses what is done with the receipt of a lease that somebody else has by now, where moto
carries it out. Time passes in long polls: nothing sleeps.
"""

import json
from collections.abc import Callable

import pytest

from spotgrad.aws.clients import Clients
from spotgrad.aws.sqs import SqsQueue
from spotgrad.errors import LeaseLost
from tests.contract.test_task_queue import *  # noqa: F403 -- every test of the suite, whatever its name

POLL_SECONDS = 10


@pytest.fixture
def hasty(clients: Clients, queue: SqsQueue) -> SqsQueue:
    """The queue, with leases of one second."""
    clients.sqs.set_queue_attributes(
        QueueUrl=queue._queue_url, Attributes={"VisibilityTimeout": "1"}
    )
    return queue


def test_a_lease_that_ran_out_neither_extends_nor_deletes(hasty: SqsQueue) -> None:
    hasty.send(["one"])
    (lost,) = hasty.receive(most=1, wait_seconds=POLL_SECONDS)
    (held,) = hasty.receive(most=1, wait_seconds=POLL_SECONDS)
    assert (held.message_id, held.receive_count) == (lost.message_id, 2)
    hasty.extend(held, lease_seconds=600)
    with pytest.raises(LeaseLost):
        hasty.extend(lost, lease_seconds=600)
    with pytest.raises(LeaseLost):
        hasty.delete(lost)
    assert hasty.depth() == 1
    hasty.delete(held)
    assert hasty.depth() == 0


@pytest.mark.xfail(
    strict=True,
    reason="ministack extends until somebody else receives the message; SQS: MessageNotInflight",
)
def test_a_message_given_back_cannot_be_extended(queue: SqsQueue) -> None:
    queue.send(["one"])
    (message,) = queue.receive(most=1, wait_seconds=POLL_SECONDS)
    queue.extend(message, lease_seconds=0)
    with pytest.raises(LeaseLost):
        queue.extend(message, lease_seconds=60)


def test_what_comes_too_often_goes_to_the_dead_letters(
    clients: Clients, hasty: SqsQueue, make_queue: Callable[[], SqsQueue]
) -> None:
    dead = make_queue()
    arn = clients.sqs.get_queue_attributes(QueueUrl=dead._queue_url, AttributeNames=["QueueArn"])
    policy = {"deadLetterTargetArn": arn["Attributes"]["QueueArn"], "maxReceiveCount": 2}
    clients.sqs.set_queue_attributes(
        QueueUrl=hasty._queue_url, Attributes={"RedrivePolicy": json.dumps(policy)}
    )
    hasty.send(["bad"])
    counts = [
        message.receive_count
        for _ in range(2)
        for message in hasty.receive(most=1, wait_seconds=POLL_SECONDS)
    ]
    assert counts == [1, 2]
    assert list(hasty.receive(most=1, wait_seconds=3)) == []
    (found,) = dead.receive(most=1, wait_seconds=POLL_SECONDS)
    assert found.body == "bad"
    assert hasty.depth() == 0
