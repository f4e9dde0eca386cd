import os
import signal
import threading
from collections.abc import Iterator

import pytest

from infra.local.interrupt import SIGNALS, interruptible, uninterrupted


@pytest.fixture(autouse=True)
def as_a_terminal_has_them() -> Iterator[None]:
    """Python's own handlers, whatever started these tests (nohup ignores some)."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in SIGNALS]


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_every_signal_is_a_keyboard_interrupt(number: signal.Signals) -> None:
    before = handlers()
    with pytest.raises(KeyboardInterrupt), interruptible():
        send(number)
    assert handlers() == before


@pytest.mark.parametrize("number", SIGNALS)
def test_what_must_be_finished_is_not_interrupted(number: signal.Signals) -> None:
    done = []
    with interruptible():
        inside = handlers()
        with uninterrupted():
            send(number)
            done.append(number)
        assert handlers() == inside
    assert done == [number]


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interruptible():
        send(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.parametrize("block", [interruptible, uninterrupted])
def test_in_another_thread_nothing_changes(block: object) -> None:
    seen: list[list[object]] = []

    def enter() -> None:
        with uninterrupted() if block is uninterrupted else interruptible():
            seen.append(handlers())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [handlers()]
