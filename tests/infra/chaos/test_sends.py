from infra.local.chaos.dice import Dice, Tally
from infra.local.chaos.exchange import Response
from infra.local.chaos.sends import Sends
from infra.local.chaos.spec import ChaosSpec
from tests.infra.chaos.requests import OK, Emulator, batch, s3, sqs

NAMES = [f"m{number}" for number in range(10)]


def sends(spec: ChaosSpec, tally: Tally) -> Sends:
    return Sends(spec, Dice(spec.seed, "sends"), tally)


def bodies(entries: object) -> list[str]:
    assert isinstance(entries, list)
    return [entry["MessageBody"] for entry in entries]


def test_without_a_fault_a_batch_is_as_it_was() -> None:
    emulator = Emulator()
    sends(ChaosSpec(throttle=1.0), Tally())(batch(*NAMES), emulator)
    assert emulator.entries == [batch(*NAMES).document()["Entries"]]


def test_other_requests_pass_as_they_are() -> None:
    emulator = Emulator()
    others = [s3("PUT", "k", b"1"), sqs("ReceiveMessage", {"QueueUrl": "q"})]
    for request in others:
        spec = ChaosSpec(duplicate=1.0, delay=9, reorder=True)
        assert sends(spec, Tally())(request, emulator) == OK
    assert emulator.seen == others


def test_second_copies_follow_some_of_them_late() -> None:
    tally, emulator = Tally(), Emulator()
    sends(ChaosSpec(duplicate=1.0), tally)(batch(*NAMES), emulator)
    first, second = emulator.entries
    assert bodies(first) == bodies(second) == NAMES
    assert {entry["DelaySeconds"] for entry in second} == {0, 1, 2}
    assert "DelaySeconds" not in first[0]
    assert tally.snapshot() == {"duplicate": 10}


def test_what_was_not_taken_is_not_there_twice() -> None:
    tally = Tally(["duplicate"])
    emulator = Emulator(Response(503, {}, b""))
    sends(ChaosSpec(duplicate=1.0), tally)(batch(*NAMES), emulator)
    assert len(emulator.seen) == 1
    assert tally.snapshot() == {"duplicate": 0}


def test_delay_is_at_most_what_was_asked_for() -> None:
    tally, emulator = Tally(), Emulator()
    disturb = sends(ChaosSpec(delay=3.7), tally)
    for _ in range(10):
        disturb(batch(*NAMES), emulator)
    delays = [entry["DelaySeconds"] for entries in emulator.entries for entry in entries]
    assert set(delays) == {0, 1, 2, 3}
    assert tally.snapshot() == {"delay": sum(delay > 0 for delay in delays)}


def test_reorder_loses_nothing() -> None:
    tally, emulator = Tally(), Emulator()
    sends(ChaosSpec(reorder=True), tally)(batch(*NAMES), emulator)
    (entries,) = emulator.entries
    assert bodies(entries) != NAMES
    assert sorted(bodies(entries)) == NAMES
    assert tally.snapshot() == {"reorder": 1}


def test_a_batch_of_one_is_in_order() -> None:
    tally = Tally(["reorder"])
    sends(ChaosSpec(reorder=True), tally)(batch("one"), Emulator())
    assert tally.snapshot() == {"reorder": 0}
