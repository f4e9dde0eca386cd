"""The event source mapping against a real queue; visibility 0 brings failures back at once."""

import json
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from infra.local.cloud import queue_depth
from infra.local.counters import Counts
from infra.local.delivery import DuplicateEvery
from infra.local.function import FunctionRaised, FunctionTimedOut
from infra.local.poller import Poller, Subscription
from infra.local.topology import QueueSource
from spotgrad.aws.clients import Clients


class Handler:
    """A function of the test's own; notes the bodies of every batch that it was given."""

    def __init__(self, behave: Callable[[list[Any]], object] = lambda _records: None) -> None:
        self.batches: list[list[str]] = []
        self.records: list[Any] = []
        self._behave = behave

    def __call__(self, event: Any) -> object:
        self.batches.append(sorted(record["body"] for record in event["Records"]))
        self.records += event["Records"]
        return self._behave(event["Records"])


class Bench:
    """A fresh queue with a dead-letter queue after two receives, and pollers for it."""

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        name = uuid.uuid4().hex
        self.dead_url = self._create(f"{name}-dead")
        self.url = self._create(name)
        policy = {"deadLetterTargetArn": self._arn(self.dead_url), "maxReceiveCount": 2}
        clients.sqs.set_queue_attributes(
            QueueUrl=self.url,
            Attributes={"RedrivePolicy": json.dumps(policy), "VisibilityTimeout": "0"},
        )

    def send(self, *bodies: str) -> None:
        for body in bodies:
            self.clients.sqs.send_message(QueueUrl=self.url, MessageBody=body)

    def subscribe(self, handler: Handler, **options: Any) -> Subscription:
        source = QueueSource(
            queue="Queue",
            batch_size=options.pop("batch_size", 10),
            batching_window_seconds=options.pop("window", 0),
            maximum_concurrency=2,
            report_batch_item_failures=True,
        )
        return Subscription(
            function="Function",
            source=source,
            queue_url=self.url,
            queue_arn=self._arn(self.url),
            invoke=handler,
            **{"long_poll_seconds": 0, **options},
        )

    def poller(self, subscription: Subscription) -> Poller:
        return Poller(subscription, self.clients.sqs, threading.Event())

    @property
    def depths(self) -> tuple[int, int]:
        """Messages in the queue and in its dead-letter queue."""
        return queue_depth(self.url, self.clients), queue_depth(self.dead_url, self.clients)

    def _create(self, name: str) -> str:
        return self.clients.sqs.create_queue(QueueName=name)["QueueUrl"]

    def _arn(self, url: str) -> str:
        answer = self.clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return answer["Attributes"]["QueueArn"]


@pytest.fixture
def bench(clients: Clients) -> Bench:
    return Bench(clients)


def fail_bodies(*bodies: str) -> Callable[[list[Any]], object]:
    return lambda records: {
        "batchItemFailures": [
            {"itemIdentifier": record["messageId"]}
            for record in records
            if record["body"] in bodies
        ]
    }


def raise_always(error: Exception) -> Callable[[list[Any]], object]:
    def behave(_records: list[Any]) -> object:
        raise error

    return behave


def test_a_batch_is_handed_over_and_acknowledged(bench: Bench) -> None:
    bench.send("one", "two")
    handler = Handler()
    subscription = bench.subscribe(handler)
    assert bench.poller(subscription).poll_once() == 2
    assert handler.batches == [["one", "two"]]
    assert bench.depths == (0, 0)
    assert subscription.counters.snapshot() == {"Function": Counts(invocations=1, acknowledged=2)}
    attributes = handler.records[0]["attributes"]
    assert attributes["ApproximateReceiveCount"] == "1"
    assert attributes["SentTimestamp"].isdigit()
    assert {"SenderId", "ApproximateFirstReceiveTimestamp"} <= set(attributes)
    assert handler.records[0]["eventSourceARN"].startswith("arn:aws:sqs:us-east-1:")


def test_an_empty_queue_invokes_nothing(bench: Bench) -> None:
    handler = Handler()
    assert bench.poller(bench.subscribe(handler)).poll_once() == 0
    assert handler.batches == []


def test_only_the_reported_failures_come_back(bench: Bench) -> None:
    bench.send("good", "bad")
    handler = Handler(fail_bodies("bad"))
    subscription = bench.subscribe(handler)
    poller = bench.poller(subscription)
    poller.poll_once()
    assert bench.depths == (1, 0)
    poller.poll_once()
    assert handler.batches == [["bad", "good"], ["bad"]]
    assert handler.records[-1]["attributes"]["ApproximateReceiveCount"] == "2"
    counts = Counts(invocations=2, acknowledged=1, retried=2)
    assert subscription.counters.snapshot() == {"Function": counts}


@pytest.mark.parametrize(
    ("behave", "counts"),
    [
        (raise_always(FunctionRaised("no")), Counts(invocations=2, retried=4, errors=2)),
        (raise_always(FunctionTimedOut("slow")), Counts(invocations=2, retried=4, timeouts=2)),
        (
            lambda _: {"batchItemFailures": [{"itemIdentifier": "stranger"}]},
            Counts(invocations=2, retried=4),
        ),
        (lambda _: "nonsense", Counts(invocations=2, retried=4)),
    ],
    ids=["raises", "times out", "unknown identifier", "malformed"],
)
def test_a_batch_that_fails_as_a_whole_ends_in_the_dead_letter_queue(
    bench: Bench, behave: Callable[[list[Any]], object], counts: Counts
) -> None:
    bench.send("one", "two")
    handler = Handler(behave)
    subscription = bench.subscribe(handler)
    poller = bench.poller(subscription)
    assert [poller.poll_once() for _ in range(3)] == [2, 2, 0]  # two receives each, no third
    assert handler.batches == [["one", "two"]] * 2
    assert bench.depths == (0, 2)
    assert subscription.counters.snapshot() == {"Function": counts}


def test_a_batch_holds_no_more_than_the_batch_size(bench: Bench) -> None:
    bench.send(*"abcde")
    handler = Handler()
    poller = bench.poller(bench.subscribe(handler, batch_size=2))
    assert [poller.poll_once() for _ in range(4)] == [2, 2, 1, 0]
    assert sorted(body for batch in handler.batches for body in batch) == list("abcde")


def test_a_window_gathers_more_than_one_receive_can_hold(bench: Bench) -> None:
    bodies = [f"{number:02}" for number in range(12)]
    bench.clients.sqs.set_queue_attributes(
        QueueUrl=bench.url, Attributes={"VisibilityTimeout": "60"}
    )
    bench.send(*bodies)
    handler = Handler()
    subscription = bench.subscribe(handler, batch_size=12, window=60)
    assert bench.poller(subscription).poll_once() == 12  # full long before the window ends
    assert handler.batches == [bodies]
    assert bench.depths == (0, 0)  # deleted in two requests


def test_a_window_that_ends_hands_over_what_there_is(bench: Bench) -> None:
    bench.send("only")
    handler = Handler()
    poller = bench.poller(bench.subscribe(handler, window=1, long_poll_seconds=1))
    bench.clients.sqs.set_queue_attributes(
        QueueUrl=bench.url, Attributes={"VisibilityTimeout": "60"}
    )
    assert poller.poll_once() == 1
    assert handler.batches == [["only"]]


def test_duplicates_are_delivered_in_an_invocation_of_their_own(bench: Bench) -> None:
    bench.send(*"abcde")
    handler = Handler()
    poller = bench.poller(bench.subscribe(handler, batch_size=5, deliver=DuplicateEvery(5)))
    while poller.poll_once():
        pass
    bodies = [body for batch in handler.batches for body in batch]
    assert len(bodies) == 6
    assert set(bodies) == set("abcde")
    assert bench.depths == (0, 0)


def test_stopping_leaves_what_was_just_received(bench: Bench) -> None:
    bench.send("late")
    handler, stopping = Handler(), threading.Event()
    stopping.set()
    poller = Poller(bench.subscribe(handler), bench.clients.sqs, stopping)
    assert poller.poll_once() == 0
    assert handler.batches == []
    assert bench.depths == (1, 0)


def test_run_outlives_a_queue_that_cannot_be_reached(bench: Bench) -> None:
    stopping = threading.Event()
    subscription = bench.subscribe(Handler())
    bench.clients.sqs.delete_queue(QueueUrl=bench.url)

    class StopsAtTheFirstWait(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            self.set()
            return super().wait(timeout)

    stopping = StopsAtTheFirstWait()
    Poller(subscription, bench.clients.sqs, stopping).run()
    assert subscription.counters.snapshot() == {"Function": Counts(errors=1)}
