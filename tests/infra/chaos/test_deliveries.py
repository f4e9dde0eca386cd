from collections import Counter
from collections.abc import Sequence

from infra.local.chaos.deliveries import Deliveries, Later
from infra.local.chaos.dice import Dice, Tally
from infra.local.chaos.spec import ChaosSpec
from infra.local.cloud import Cloud, queue_depth
from infra.local.delivery import DuplicateEvery, once
from infra.local.records import Record, to_record
from infra.local.topology import Topology
from spotgrad.aws.clients import Clients


class Queues(Later):
    """Remembers what was to come back later."""

    def __init__(self) -> None:
        self.held: list[tuple[str, int]] = []
        self.sent: list[tuple[str, int]] = []

    def hold_back(self, record: Record, seconds: int) -> None:
        self.held.append((record["messageId"], seconds))

    def send_again(self, record: Record, seconds: int) -> str:
        self.sent.append((record["messageId"], seconds))
        return f"copy of {record['messageId']}"


def records(*names: str) -> list[Record]:
    return [{"messageId": name} for name in names]


NAMES = [f"m{number}" for number in range(10)]


def ids(batches: Sequence[Sequence[Record]]) -> list[list[str]]:
    return [[record["messageId"] for record in batch] for batch in batches]


def deliveries(spec: ChaosSpec, queues: Queues, tally: Tally | None = None) -> Deliveries:
    return Deliveries(spec, Dice(1, "deliveries"), tally or Tally(), queues, once)


def test_without_a_fault_a_batch_is_as_it_was() -> None:
    queues = Queues()
    assert ids(deliveries(ChaosSpec(kill=1.0), queues)(records(*NAMES))) == [NAMES]
    assert (queues.held, queues.sent) == ([], [])


def test_second_copies_come_at_once_or_later() -> None:
    queues, tally = Queues(), Tally()
    first, second = ids(deliveries(ChaosSpec(duplicate=1.0), queues, tally)(records(*NAMES)))
    assert first == NAMES
    late = [name for name, _ in queues.sent]
    assert sorted([*second, *late]) == NAMES
    assert second
    assert late
    assert {seconds for _, seconds in queues.sent} <= {0, 1, 2}
    assert tally.snapshot() == {"duplicate": 10}


def test_a_copy_is_not_copied_again() -> None:
    queues = Queues()
    twice = deliveries(ChaosSpec(duplicate=1.0), queues)
    twice(records(*NAMES))
    copies = [f"copy of {name}" for name, _ in queues.sent]
    before = list(queues.sent)
    assert ids(twice(records(*copies))) == [copies]
    assert queues.sent == before


def test_late_ones_are_held_back_once() -> None:
    queues, tally = Queues(), Tally()
    late = deliveries(ChaosSpec(delay=5), queues, tally)
    now = [name for batch in ids(late(records(*NAMES))) for name in batch]
    held = [name for name, _ in queues.held]
    assert sorted([*now, *held]) == NAMES
    assert held
    assert all(1 <= seconds <= 5 for _, seconds in queues.held)
    assert tally.snapshot() == {"delay": len(held)}
    assert ids(late(records(*held))) == [held]  # they are late enough


def test_reordering_shuffles_cuts_and_holds_back_but_loses_nothing() -> None:
    queues, tally = Queues(), Tally()
    mixed = deliveries(ChaosSpec(reorder=True), queues, tally)
    met: list[str] = []
    for start in range(10):
        met += [
            name
            for batch in ids(mixed(records(*(f"{start}.{n}" for n in NAMES))))
            for name in batch
        ]
    held = [name for name, _ in queues.held]
    assert {seconds for _, seconds in queues.held} == {1}
    assert 5 < len(held) < 40
    assert Counter([*met, *held]) == Counter(f"{start}.{n}" for start in range(10) for n in NAMES)
    assert met != sorted(met)
    assert tally.snapshot()["reorder"] == len(held) + 10


def test_a_batch_that_is_held_back_altogether_is_delivered_to_nobody() -> None:
    late = deliveries(ChaosSpec(delay=900), Queues())
    assert [late(records(name)) for name in NAMES].count([]) >= 9


def test_what_the_run_wanted_before_still_happens() -> None:
    tally = Tally()
    both = Deliveries(ChaosSpec(kill=1.0), Dice(1, "d"), tally, Queues(), DuplicateEvery(2))
    assert ids(both(records("a", "b"))) == [["a", "b"], ["b"]]


def test_later_means_the_real_queue(topology: Topology, cloud: Cloud, clients: Clients) -> None:
    queue = topology.queues["ResultsQueue"]
    url = cloud.queue_urls["ResultsQueue"]
    later = Later(clients.sqs, {queue.arn: url})
    clients.sqs.send_message(QueueUrl=url, MessageBody="x")

    def receive() -> list[Record]:
        answer = clients.sqs.receive_message(QueueUrl=url, MessageSystemAttributeNames=["All"])
        return [to_record(found, queue_arn=queue.arn) for found in answer.get("Messages", [])]

    (record,) = receive()
    assert receive() == []
    later.hold_back(record, 0)
    (again,) = receive()
    assert again["messageId"] == record["messageId"]
    copy_id = later.send_again(again, 0)
    (copy,) = receive()
    assert (copy["messageId"], copy["body"]) == (copy_id, "x")
    later.send_again(copy, 900)
    assert receive() == []
    assert queue_depth(url, clients) == 3
