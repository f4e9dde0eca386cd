"""Where the fakes are stricter than moto: what AWS does and the contract suite cannot see there.

moto extends and deletes with an expired receipt handle, never answers 409, never throttles and
loses no answer. Code that must survive these is tested with the fakes; here the fakes themselves.
"""

import random
from collections.abc import Callable

import pytest

from spotgrad.errors import ConditionFailed, LeaseLost, NotFound, StoreUnavailable, Unsupported
from spotgrad.ports import ABSENT, Clock, NewId
from tests.fakes.clock import START, FakeClock
from tests.fakes.faults import Crashed, Fault
from tests.fakes.ids import FakeIds
from tests.fakes.queue import FakeQueue
from tests.fakes.store import FakeStore, Write, crash_at


def bodies(queue: FakeQueue, most: int = 10) -> list[str]:
    return [message.body for message in queue.receive(most=most, wait_seconds=0)]


def test_a_clock_moves_when_told_and_never_back() -> None:
    fake = FakeClock()
    clock: Clock = fake
    assert (clock.now(), clock.monotonic()) == (START, 0)
    fake.advance(90)
    assert ((clock.now() - START).total_seconds(), clock.monotonic()) == (90, 90)
    with pytest.raises(ValueError, match="-1"):
        fake.advance(-1)


def test_ids_are_counted() -> None:
    draw: NewId = FakeIds(first=255)
    assert [draw(), draw()] == ["00000000000000ff", "0000000000000100"]


# ---- store


def test_modified_at_is_the_clocks() -> None:
    clock = FakeClock()
    store = FakeStore(clock)
    store.put("a", b"1")
    clock.advance(60)
    store.put("b", b"1")
    ages = [(clock.now() - info.modified_at).total_seconds() for info in store.list("")]
    assert ages == [60, 0]


def test_a_409_leaves_everything_as_it_was() -> None:
    store = FakeStore()
    tag = store.put("head", b"1")
    store.faults.order(Fault.CONFLICT, key="head", times=2)
    store.put("head", b"2")  # without a condition there is no conflict
    with pytest.raises(ConditionFailed, match="409"):
        store.put("head", b"3", only_if=tag)
    with pytest.raises(ConditionFailed, match="409"):
        store.put("head", b"3", only_if=ABSENT)
    with pytest.raises(ConditionFailed, match="412"):
        store.put("head", b"3", only_if=tag)
    assert store.snapshot() == {"head": b"2"}


def test_a_lost_answer_hides_a_write_that_happened() -> None:
    store = FakeStore()
    store.faults.order(Fault.ANSWER_LOST, operation="put")
    store.faults.order(Fault.ANSWER_LOST, operation="delete")
    with pytest.raises(StoreUnavailable, match="after the effect"):
        store.put("head", b"1", only_if=ABSENT)
    with pytest.raises(ConditionFailed):
        store.put("head", b"1", only_if=ABSENT)
    assert store.get("head").body == b"1"
    with pytest.raises(StoreUnavailable):
        store.delete("head")
    assert store.snapshot() == {}


@pytest.mark.parametrize("operation", ["get", "put", "list", "delete"])
def test_an_unavailable_store_does_nothing(operation: str) -> None:
    store = FakeStore()
    store.put("a", b"1")
    store.faults.order(Fault.UNAVAILABLE, operation=operation)
    calls: dict[str, Callable[[], object]] = {
        "get": lambda: store.get("a"),
        "put": lambda: store.put("a", b"2"),
        "list": lambda: store.list("a"),
        "delete": lambda: store.delete("a"),
    }
    with pytest.raises(StoreUnavailable, match=f"{operation} a"):
        calls[operation]()
    assert store.snapshot() == {"a": b"1"}
    calls[operation]()
    assert store.calls[operation] == (3 if operation == "put" else 2)


@pytest.mark.parametrize(
    ("number", "moment", "left"),
    [(1, "before", []), (1, "after", ["a"]), (2, "before", ["a"]), (2, "after", ["a", "b"])],
)
def test_a_process_can_die_around_any_write(number: int, moment: str, left: list[str]) -> None:
    store = FakeStore()
    store.on_write = crash_at(number, "before" if moment == "before" else "after")
    with pytest.raises(Crashed):  # noqa: PT012 -- which of the writes raises is the parameter
        store.put("a", b"1")
        store.put("b", b"1")
    assert list(store.snapshot()) == left
    store.put("c", b"1")  # the next process


def test_another_writer_can_come_in_between() -> None:
    store = FakeStore()
    tag = store.put("head", b"1")

    def intruder(write: Write) -> None:
        if write.moment == "before":
            store.on_write = None
            store.put("head", b"theirs", only_if=tag)

    store.on_write = intruder
    with pytest.raises(ConditionFailed, match="412"):
        store.put("head", b"mine", only_if=tag)
    assert store.get("head").body == b"theirs"


def test_the_hook_sees_every_write() -> None:
    store = FakeStore()
    seen: list[tuple[str, str, str, int]] = []
    store.on_write = lambda write: seen.append(
        (write.moment, write.operation, write.key, write.number)
    )
    store.put("a", b"1")
    store.delete("a")
    assert seen == [
        ("before", "put", "a", 1),
        ("after", "put", "a", 1),
        ("before", "delete", "a", 2),
        ("after", "delete", "a", 2),
    ]
    with pytest.raises(NotFound):
        store.get("a")


def test_keys_and_bodies_are_checked() -> None:
    store = FakeStore()
    store.put("é" * 512, b"1")
    for key in ("", "é" * 513):
        with pytest.raises(Unsupported, match="1024"):
            store.put(key, b"1")
    with pytest.raises(TypeError, match="str"):
        store.put("a", "text")  # type: ignore[arg-type]  # what is under test


# ---- queue


def test_an_expired_lease_can_neither_extend_nor_delete() -> None:
    clock = FakeClock()
    queue = FakeQueue(clock, lease_seconds=30)
    queue.send(["one"])
    (message,) = queue.receive(most=1, wait_seconds=0)
    clock.advance(29)
    queue.extend(message, lease_seconds=30)
    clock.advance(30)
    for _ in range(2):  # nobody else has it yet, and it is lost all the same
        with pytest.raises(LeaseLost, match="message-1"):
            queue.extend(message, lease_seconds=30)
        with pytest.raises(LeaseLost):
            queue.delete(message)
    (again,) = queue.receive(most=1, wait_seconds=0)
    with pytest.raises(LeaseLost):  # and now somebody else has
        queue.delete(message)
    queue.delete(again)
    assert queue.depth() == 0


def test_a_message_given_back_is_no_longer_leased() -> None:
    queue = FakeQueue()
    queue.send(["one"])
    (message,) = queue.receive(most=1, wait_seconds=0)
    assert queue.in_flight() == 1
    queue.extend(message, lease_seconds=0)
    assert queue.in_flight() == 0
    with pytest.raises(LeaseLost):
        queue.delete(message)
    assert bodies(queue) == ["one"]


def test_a_deleted_message_cannot_be_deleted_again() -> None:
    queue = FakeQueue()
    queue.send(["one"])
    (message,) = queue.receive(most=1, wait_seconds=0)
    queue.delete(message)
    with pytest.raises(LeaseLost):
        queue.delete(message)


def test_all_extensions_together_end_after_twelve_hours() -> None:
    clock = FakeClock()
    queue = FakeQueue(clock)
    queue.send(["one"])
    (message,) = queue.receive(most=1, wait_seconds=0)
    queue.extend(message, lease_seconds=43_200)
    clock.advance(43_000)
    queue.extend(message, lease_seconds=200)
    with pytest.raises(Unsupported, match="43200 s"):
        queue.extend(message, lease_seconds=201)
    queue.delete(message)


def test_a_message_that_comes_too_often_goes_to_the_dead_letters() -> None:
    clock = FakeClock()
    dead = FakeQueue(clock)
    queue = FakeQueue(clock, lease_seconds=10, max_receives=3, dead_letters=dead)
    queue.send(["bad"])
    counts = []
    for _ in range(3):
        (message,) = queue.receive(most=1, wait_seconds=0)
        counts.append(message.receive_count)
        clock.advance(10)
    assert counts == [1, 2, 3]
    assert (bodies(queue), queue.depth()) == ([], 0)
    assert dead.bodies() == ["bad"]


def test_a_redrive_policy_is_whole_or_absent() -> None:
    with pytest.raises(ValueError, match="together"):
        FakeQueue(max_receives=3)


def test_a_duplicate_comes_however_its_twin_fares() -> None:
    queue = FakeQueue()
    queue.send(["one", "two"])
    queue.duplicate(1)
    (first,) = queue.receive(most=1, wait_seconds=0)
    queue.delete(first)
    rest = queue.receive(most=10, wait_seconds=0)
    assert sorted(message.body for message in rest) == ["one", "two"]
    (twin,) = [message for message in rest if message.body == "one"]
    assert (twin.message_id, twin.receive_count) == (first.message_id, 2)
    assert twin.receipt != first.receipt
    for message in rest:
        queue.delete(message)
    assert queue.depth() == 0


def test_deliveries_can_be_shuffled_by_a_seed() -> None:
    def delivered(seed: int | None) -> list[str]:
        order = None if seed is None else random.Random(seed)  # noqa: S311 -- no secret
        queue = FakeQueue(order=order)
        queue.send([str(number) for number in range(10)])
        return bodies(queue)

    assert delivered(None) == [str(number) for number in range(10)]
    assert delivered(1) == delivered(1) != delivered(2)
    assert sorted(delivered(1)) == delivered(None)


def test_too_many_in_flight_are_over_limit() -> None:
    clock = FakeClock()
    queue = FakeQueue(clock, lease_seconds=5, most_in_flight=2)
    queue.send(["a", "b", "c"])
    assert bodies(queue, 2) == ["a", "b"]
    with pytest.raises(StoreUnavailable, match="OverLimit"):
        queue.receive(most=1, wait_seconds=0)
    clock.advance(5)
    assert bodies(queue, 1) == ["a"]


@pytest.mark.parametrize("operation", ["send", "receive", "extend", "delete", "depth"])
def test_an_unavailable_queue_does_nothing(operation: str) -> None:
    queue = FakeQueue()
    queue.send(["leased", "waiting"])
    (message,) = queue.receive(most=1, wait_seconds=0)
    queue.faults.order(Fault.UNAVAILABLE, operation=operation)
    calls: dict[str, Callable[[], object]] = {
        "send": lambda: queue.send(["new"]),
        "receive": lambda: queue.receive(most=1, wait_seconds=0),
        "extend": lambda: queue.extend(message, lease_seconds=0),
        "delete": lambda: queue.delete(message),
        "depth": queue.depth,
    }
    with pytest.raises(StoreUnavailable, match=operation):
        calls[operation]()
    assert (queue.bodies(), queue.in_flight()) == (["leased", "waiting"], 1)
    calls[operation]()


def test_a_send_whose_answer_is_lost_has_sent() -> None:
    queue = FakeQueue()
    queue.faults.order(Fault.ANSWER_LOST)
    with pytest.raises(StoreUnavailable):
        queue.send(["one"])
    assert queue.bodies() == ["one"]
