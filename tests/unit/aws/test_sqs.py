"""What the contract suite cannot show: answers that moto never gives, and what is sent."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.stub import ANY, Stubber

from spotgrad.aws.clients import Clients, make_clients
from spotgrad.aws.sqs import SqsQueue
from spotgrad.errors import LeaseLost, Malformed, StoreUnavailable, Unsupported
from spotgrad.ports import Message
from spotgrad.settings import MissingSetting

URL = "https://sqs.us-east-1.amazonaws.com/123456789012/subtasks"
ANY_SEND = {"QueueUrl": URL, "Entries": ANY}
MESSAGE = Message(message_id="m1", body="x", receipt="r1", receive_count=1)


@pytest.fixture
def clients() -> Clients:
    return make_clients()


@pytest.fixture
def stub(clients: Clients) -> Iterator[Stubber]:
    with Stubber(clients.sqs) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


@pytest.fixture
def queue(clients: Clients) -> SqsQueue:
    return SqsQueue(clients.sqs, URL)


def entries(**bodies: str) -> dict[str, Any]:
    listed = [{"Id": name[1:], "MessageBody": body} for name, body in bodies.items()]
    return {"QueueUrl": URL, "Entries": listed}


def failed(*names: str, sender_fault: bool = False, code: str = "InternalError") -> dict[str, Any]:
    rows = [{"Id": name, "SenderFault": sender_fault, "Code": code} for name in names]
    return {"Successful": [], "Failed": rows}


def test_bodies_travel_in_tens(stub: Stubber, queue: SqsQueue) -> None:
    bodies = [str(number) for number in range(12)]
    first = {f"_{number}": str(number) for number in range(10)}
    stub.add_response("send_message_batch", failed(), entries(**first))
    stub.add_response("send_message_batch", failed(), entries(_0="10", _1="11"))
    queue.send(bodies)


def test_a_batch_is_cut_at_one_mebibyte(stub: Stubber, queue: SqsQueue) -> None:
    half, over = "a" * 524_288, "b" * 524_289
    stub.add_response("send_message_batch", failed(), entries(_0=half, _1=half))
    stub.add_response("send_message_batch", failed(), entries(_0=over))
    stub.add_response("send_message_batch", failed(), entries(_0=half))
    queue.send([half, half, over, half])


def test_only_what_was_not_taken_is_offered_again(stub: Stubber, queue: SqsQueue) -> None:
    stub.add_response("send_message_batch", failed("0", "2"), entries(_0="a", _1="b", _2="c"))
    stub.add_response("send_message_batch", failed("2"), entries(_0="a", _2="c"))
    stub.add_response("send_message_batch", failed(), entries(_2="c"))
    queue.send(["a", "b", "c"])


def test_what_is_never_taken_is_an_error(stub: Stubber, queue: SqsQueue) -> None:
    for _ in range(3):
        stub.add_response("send_message_batch", failed("1"), ANY_SEND)
    with pytest.raises(StoreUnavailable, match=r"1 of 2 messages not taken.*InternalError"):
        queue.send(["a", "b"])


def test_a_message_at_fault_itself_is_not_offered_again(stub: Stubber, queue: SqsQueue) -> None:
    refusal = failed("0", sender_fault=True, code="InvalidMessageContents")
    stub.add_response("send_message_batch", refusal, ANY_SEND)
    with pytest.raises(Malformed, match="InvalidMessageContents"):
        queue.send(["a"])


@pytest.mark.parametrize(
    ("asked", "sent"), [(0, 0), (0.01, 1), (0.5, 1), (1, 1), (1.9, 1), (7, 7), (20, 20), (90, 20)]
)
def test_a_wait_is_whole_seconds_up_to_twenty(
    stub: Stubber, queue: SqsQueue, asked: float, sent: int
) -> None:
    request = {
        "QueueUrl": URL,
        "MaxNumberOfMessages": 3,
        "WaitTimeSeconds": sent,
        "MessageSystemAttributeNames": ["ApproximateReceiveCount"],
    }
    stub.add_response("receive_message", {}, request)
    assert list(queue.receive(most=3, wait_seconds=asked)) == []


def test_a_message_carries_its_receive_count(stub: Stubber, queue: SqsQueue) -> None:
    row = {
        "MessageId": "m1",
        "Body": "x",
        "ReceiptHandle": "r1",
        "Attributes": {"ApproximateReceiveCount": "4"},
    }
    stub.add_response("receive_message", {"Messages": [row]})
    assert list(queue.receive(most=1, wait_seconds=0)) == [Message("m1", "x", "r1", 4)]


def test_depth_counts_waiting_leased_and_delayed(stub: Stubber, queue: SqsQueue) -> None:
    counts = {
        "ApproximateNumberOfMessages": "1",
        "ApproximateNumberOfMessagesNotVisible": "20",
        "ApproximateNumberOfMessagesDelayed": "300",
    }
    stub.add_response("get_queue_attributes", {"Attributes": counts})
    assert queue.depth() == 321


@pytest.mark.parametrize("code", ["MessageNotInflight", "ReceiptHandleIsInvalid"])
def test_a_lost_lease_is_no_ones_fault(stub: Stubber, queue: SqsQueue, code: str) -> None:
    stub.add_client_error("change_message_visibility", code, http_status_code=400)
    with pytest.raises(LeaseLost, match="m1"):
        queue.extend(MESSAGE, lease_seconds=60)
    stub.add_client_error("delete_message", code, http_status_code=400)
    with pytest.raises(LeaseLost, match="m1"):
        queue.delete(MESSAGE)


def test_twelve_hours_in_all_are_not_a_lost_lease(stub: Stubber, queue: SqsQueue) -> None:
    stub.add_client_error(
        "change_message_visibility",
        "InvalidParameterValue",
        "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]",
        http_status_code=400,
    )
    with pytest.raises(Unsupported, match="43200"):
        queue.extend(MESSAGE, lease_seconds=43_200)


def test_a_missing_queue_says_what_to_do(stub: Stubber, queue: SqsQueue) -> None:
    stub.add_client_error(
        "receive_message", "AWS.SimpleQueueService.NonExistentQueue", http_status_code=400
    )
    with pytest.raises(MissingSetting, match="SPOTGRAD_SUBTASKS_QUEUE_URL"):
        queue.receive(most=1, wait_seconds=0)


def test_too_many_in_flight_is_retried(stub: Stubber, queue: SqsQueue) -> None:
    stub.add_client_error("receive_message", "OverLimit", http_status_code=403)
    with pytest.raises(StoreUnavailable, match="OverLimit"):
        queue.receive(most=1, wait_seconds=0)
