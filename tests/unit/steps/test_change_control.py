import pytest

from spotgrad.protocol.control import Control, Redrive, Want
from spotgrad.protocol.head import WorkItem
from spotgrad.protocol.keys import ControlKey
from spotgrad.steps.change_control import change_control, is_to_go_on, read_control
from tests.builders import JOB, Bench, train
from tests.fakes.clock import START
from tests.fakes.store import FakeStore, Write

KEY = ControlKey(JOB).render()
REDRIVE = Redrive(token="ab" * 8)
ALIVE = WorkItem(epoch=1, subtask="train-000001")


def want(store: FakeStore, wish: Want) -> Control:
    return change_control(store, JOB, lambda one: one.model_copy(update={"want": wish}))


def test_the_first_wish_makes_the_file() -> None:
    store = FakeStore()
    assert read_control(store, JOB) == Control()
    assert want(store, "run") == Control.from_json(store.get(KEY).body) == Control()


def test_other_wishes_stay() -> None:
    store = FakeStore()
    store.put(KEY, Control(redrive=REDRIVE, resume="cd" * 8).to_json())
    assert want(store, "pause") == Control(want="pause", redrive=REDRIVE, resume="cd" * 8)
    assert read_control(store, JOB).want == "pause"


def test_what_it_says_already_is_not_written_again() -> None:
    store = FakeStore()
    want(store, "pause")
    written = store.calls["put"]
    want(store, "pause")
    assert store.calls["put"] == written


def test_a_damaged_file_is_replaced() -> None:
    store = FakeStore()
    store.put(KEY, b"{")
    assert read_control(store, JOB) == Control()
    assert want(store, "run") == Control() == Control.from_json(store.get(KEY).body)


def test_two_people_at_once_both_get_their_wish() -> None:
    store = FakeStore()

    def hook(write: Write) -> None:
        if write.moment == "before":
            store.on_write = None
            store.put(KEY, Control(redrive=REDRIVE).to_json())

    store.on_write = hook
    want(store, "pause")
    assert read_control(store, JOB) == Control(want="pause", redrive=REDRIVE)


@pytest.fixture
def degraded() -> Bench:
    """Shard 3 of epoch 1 is dead, all else is done."""
    bench = Bench()
    bench.start(epochs=1, retries={"failures": 0, "max_dead": 2})
    bench.aggregate(bench.failed(train(1, 3)))
    assert bench.finish().state == "DEGRADED"
    return bench


@pytest.mark.parametrize(
    ("wish", "goes_on"),
    [
        (Control(), False),
        (Control(redrive=REDRIVE), True),
        (Control(redrive=REDRIVE, want="pause"), True),
        (Control(redrive=REDRIVE, want="cancel"), False),
        (Control(resume="cd" * 8), False),  # nothing is open that could be sent again
        (Control(redrive=Redrive(token="ab" * 8, subtasks=(ALIVE,))), False),
    ],
)
def test_an_ended_job_goes_on_for_a_redrive_of_what_is_dead(
    degraded: Bench,
    wish: Control,
    goes_on: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    degraded.store.put(KEY, wish.to_json())
    assert is_to_go_on(degraded.store, degraded.head, START) is goes_on


def test_a_wish_that_was_carried_out_or_a_job_under_way_is_no_more_to_be_said(
    degraded: Bench,
) -> None:
    assert not is_to_go_on(degraded.store, degraded.head, START)  # no control file at all
    degraded.store.put(KEY, Control(redrive=REDRIVE).to_json())
    assert degraded.reconcile().ended
    assert not degraded.head.ended
    assert not is_to_go_on(degraded.store, degraded.head, START)
    degraded.aggregate(degraded.failed(train(1, 3)))
    assert degraded.finish().state == "DEGRADED"
    assert not is_to_go_on(degraded.store, degraded.head, START)
