"""Dead letters, in memory and on SQS (moto): how they come to lie there, and how they get back."""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from spotgrad.aws.clients import Clients
from spotgrad.aws.dead_letters import dead_letters_of
from spotgrad.aws.sqs import SqsQueue
from spotgrad.cli.main import main
from spotgrad.errors import Unsupported
from spotgrad.ports import DeadLetters
from spotgrad.settings import MissingSetting
from spotgrad.steps.redrive_messages import Moved, redrive_messages
from tests.contract.queues import GaugedQueue
from tests.contract.test_task_queue import drain
from tests.fakes.clock import FakeClock
from tests.fakes.queue import FakeQueue

NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Pair:
    """A queue whose messages are dead after one delivery, and where they go."""

    queue: GaugedQueue
    graves: DeadLetters
    url: str = ""

    def bury(self, *bodies: str) -> None:
        """Deliver each once, in vain."""
        self.queue.send(bodies)
        while messages := self.queue.receive(most=10, wait_seconds=0):
            for message in messages:
                self.queue.extend(message, lease_seconds=0)


def on_sqs(made: Clients) -> Pair:
    name = f"dead-letters-{next(NUMBERS)}"
    graves = made.sqs.create_queue(QueueName=f"{name}-graves")["QueueUrl"]
    arn = made.sqs.get_queue_attributes(QueueUrl=graves, AttributeNames=["QueueArn"])
    policy = {"deadLetterTargetArn": arn["Attributes"]["QueueArn"], "maxReceiveCount": 1}
    url = made.sqs.create_queue(QueueName=name, Attributes={"RedrivePolicy": json.dumps(policy)})[
        "QueueUrl"
    ]
    return Pair(SqsQueue(made.sqs, url), dead_letters_of(made.sqs, url), url)


@pytest.fixture(params=["fake", "sqs"])
def pair(request: pytest.FixtureRequest) -> Pair:
    if request.param == "sqs":
        return on_sqs(request.getfixturevalue("clients"))
    clock = FakeClock()
    graves = FakeQueue(clock)
    return Pair(FakeQueue(clock, max_receives=1, dead_letters=graves), graves)


@pytest.mark.parametrize("count", [1, 12])
def test_dead_letters_go_back_and_are_delivered_again(pair: Pair, count: int) -> None:
    bodies = [f"body {number:02d}" for number in range(count)]
    pair.bury(*bodies)
    assert (pair.queue.depth(), pair.graves.depth()) == (0, count)
    assert redrive_messages(pair.graves, pair.queue) == Moved(count, 0)
    assert (pair.queue.depth(), pair.graves.depth()) == (count, 0)
    assert sorted(drain(pair.queue)) == bodies


def test_a_message_sent_back_counts_its_deliveries_from_one(pair: Pair) -> None:
    """Else it would be dead again before anybody saw it."""
    pair.bury("one")
    redrive_messages(pair.graves, pair.queue)
    (message,) = pair.queue.receive(most=1, wait_seconds=0)
    assert (message.body, message.receive_count) == ("one", 1)


def test_no_dead_letters_are_nothing_to_do(pair: Pair) -> None:
    assert redrive_messages(pair.graves, pair.queue) == Moved(0, 0)


def test_a_queue_without_dead_letters_or_no_queue_is_said_so(clients: Clients) -> None:
    url = clients.sqs.create_queue(QueueName=f"dead-letters-{next(NUMBERS)}")["QueueUrl"]
    with pytest.raises(Unsupported, match="has no dead-letter queue"):
        dead_letters_of(clients.sqs, url)
    with pytest.raises(MissingSetting, match="or correct its URL"):
        dead_letters_of(clients.sqs, f"{url}-elsewhere")


@pytest.fixture
def command(
    moto_endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_endpoint)

    def run(*arguments: str) -> Any:
        assert main([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run


def test_the_command_finds_them_by_the_queues_alone(
    command: Callable[..., Any], clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = {name: on_sqs(clients) for name in ("uploads", "results", "subtasks")}
    for name, one in pairs.items():
        monkeypatch.setenv(f"SPOTGRAD_{name.upper()}_QUEUE_URL", one.url)
    pairs["results"].bury("a", "b")
    pairs["subtasks"].bury("c")
    found = command("dlq", "list")["queues"]
    assert {row["queue"]: row["dead_letters"] for row in found} == {
        "uploads": 0,
        "results": 2,
        "subtasks": 1,
    }
    moved = command("dlq", "redrive", "--queue", "all")["queues"]
    assert [(row["queue"], row["moved"], row["left"]) for row in moved] == [
        ("uploads", 0, 0),
        ("results", 2, 0),
        ("subtasks", 1, 0),
    ]
    assert [one.queue.depth() for one in pairs.values()] == [0, 2, 1]
