"""What every ``TaskQueue`` and ``TaskGauge`` does, in memory or on SQS (moto, loopback).

moto is laxer than SQS in one respect that matters: with an expired receipt handle it still extends
and deletes. Whatever rests on a lost lease, or needs time to pass, is therefore tested on the
strict fake alone (test_strict_fakes.py beside this file), and never against moto.
"""

from collections.abc import Callable

import pytest

from spotgrad.errors import LeaseLost, Malformed, Unsupported
from tests.contract.queues import GaugedQueue


def drain(queue: GaugedQueue) -> list[str]:
    bodies: list[str] = []
    while messages := queue.receive(most=10, wait_seconds=0):
        for message in messages:
            bodies.append(message.body)
            queue.delete(message)
    return bodies


def test_an_empty_queue_delivers_nothing(queue: GaugedQueue) -> None:
    assert list(queue.receive(most=10, wait_seconds=0)) == []
    assert queue.depth() == 0


@pytest.mark.parametrize("body", ["x", '{"job": "é\U0001f600"}', "\ttab\r\nline", "a&b<c>"])
def test_a_body_arrives_as_it_was_sent(queue: GaugedQueue, body: str) -> None:
    queue.send([body])
    (message,) = queue.receive(most=1, wait_seconds=1)
    assert message.body == body
    assert message.receive_count == 1
    assert message.message_id
    assert message.receipt


def test_sending_nothing_is_no_error(queue: GaugedQueue) -> None:
    queue.send([])
    assert queue.depth() == 0


@pytest.mark.parametrize("count", [1, 10, 11, 25])
def test_any_number_is_sent(queue: GaugedQueue, count: int) -> None:
    bodies = [f"body {number}" for number in range(count)]
    queue.send(bodies)
    assert queue.depth() == count
    assert sorted(drain(queue)) == sorted(bodies)
    assert queue.depth() == 0


def test_equal_bodies_are_two_messages(queue: GaugedQueue) -> None:
    queue.send(["same", "same"])
    first, second = queue.receive(most=2, wait_seconds=0)
    assert first.message_id != second.message_id
    assert first.receipt != second.receipt


def test_large_bodies_share_no_batch(queue: GaugedQueue) -> None:
    bodies = [letter * 600_000 for letter in "abc"]  # two of them exceed 1 MiB
    queue.send(bodies)
    assert sorted(drain(queue)) == bodies


def test_the_largest_body_passes(queue: GaugedQueue) -> None:
    body = "é" * 524_288  # 1,048,576 bytes in UTF-8
    queue.send([body])
    assert drain(queue) == [body]


@pytest.mark.parametrize(
    "body",
    ["", "x" * 1_048_577, "é" * 524_289, "nul \0", "bell \a", "\ufffe", "lone \ud800"],
    ids=["empty", "too long", "too long in bytes", "nul", "bell", "no character", "surrogate"],
)
def test_a_body_that_sqs_refuses_stops_all(queue: GaugedQueue, body: str) -> None:
    with pytest.raises(Malformed):
        queue.send(["good", body, "good"])
    assert queue.depth() == 0


@pytest.mark.parametrize("most", [1, 3, 10])
def test_no_more_than_asked_for_is_leased(queue: GaugedQueue, most: int) -> None:
    queue.send([str(number) for number in range(12)])
    assert len(queue.receive(most=most, wait_seconds=0)) == most


@pytest.mark.parametrize("most", [0, 11])
def test_a_receive_takes_one_to_ten(queue: GaugedQueue, most: int) -> None:
    with pytest.raises(Unsupported):
        queue.receive(most=most, wait_seconds=0)


def test_a_leased_message_is_hidden_but_counted(queue: GaugedQueue) -> None:
    queue.send(["one", "two"])
    (leased,) = queue.receive(most=1, wait_seconds=0)
    (other,) = queue.receive(most=10, wait_seconds=0)
    assert {leased.body, other.body} == {"one", "two"}
    assert queue.depth() == 2


def test_a_message_given_back_comes_again_at_once(queue: GaugedQueue) -> None:
    queue.send(["one"])
    (first,) = queue.receive(most=1, wait_seconds=0)
    queue.extend(first, lease_seconds=0)
    (second,) = queue.receive(most=1, wait_seconds=0)
    assert second.message_id == first.message_id
    assert second.receipt != first.receipt
    assert second.receive_count == 2


def test_an_extended_message_stays_hidden_and_can_be_deleted(queue: GaugedQueue) -> None:
    queue.send(["one"])
    (message,) = queue.receive(most=1, wait_seconds=0)
    queue.extend(message, lease_seconds=600)
    queue.extend(message, lease_seconds=600)
    assert list(queue.receive(most=1, wait_seconds=0)) == []
    queue.delete(message)
    assert queue.depth() == 0


@pytest.mark.parametrize("lease_seconds", [-1, 43_201])
def test_a_lease_lasts_twelve_hours_at_most(queue: GaugedQueue, lease_seconds: int) -> None:
    queue.send(["one"])
    (message,) = queue.receive(most=1, wait_seconds=0)
    with pytest.raises(Unsupported, match="lease"):
        queue.extend(message, lease_seconds=lease_seconds)


def test_a_deleted_message_cannot_be_extended(queue: GaugedQueue) -> None:
    queue.send(["one"])
    (message,) = queue.receive(most=1, wait_seconds=0)
    queue.delete(message)
    with pytest.raises(LeaseLost):
        queue.extend(message, lease_seconds=60)
    assert list(queue.receive(most=1, wait_seconds=0)) == []


def test_a_receipt_of_another_queue_is_no_lease(make_queue: Callable[[], GaugedQueue]) -> None:
    here, there = make_queue(), make_queue()
    there.send(["one"])
    (message,) = there.receive(most=1, wait_seconds=0)
    with pytest.raises(LeaseLost):
        here.extend(message, lease_seconds=60)
    assert there.depth() == 1
