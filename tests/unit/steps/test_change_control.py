from spotgrad.protocol.control import Control, Redrive, Want
from spotgrad.protocol.keys import ControlKey
from spotgrad.steps.change_control import change_control, read_control
from tests.builders import JOB
from tests.fakes.store import FakeStore, Write

KEY = ControlKey(JOB).render()
REDRIVE = Redrive(token="ab" * 8)


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
