import os
import signal
from collections.abc import Iterator

import pytest

from worker_image.interruption import Stop


@pytest.fixture
def stop() -> Iterator[Stop]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    made = Stop()
    yield made
    for number, handler in before.items():
        signal.signal(number, handler)
    made.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_to_stop_and_a_second_one_changes_nothing(
    stop: Stop, number: signal.Signals
) -> None:
    stop.install()
    assert not stop.requested
    assert not stop.wait(0)
    for _ in range(2):
        os.kill(os.getpid(), number)
        assert stop.wait(10)
        assert stop.requested


def test_waiting_ends_when_it_is_over_or_asked_to(stop: Stop) -> None:
    assert not stop.wait(0.001)
    assert not stop.wait(-1)
    stop.suggest()
    assert not stop.wait(0.001)
    stop.request()
    stop.request()
    assert stop.wait(3_600)
    assert stop.wait(3_600)


def test_what_each_signal_leaves_is_noted(stop: Stop) -> None:
    stop.install()
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.wait(10)
    os.kill(os.getpid(), signal.SIGINT)
    assert stop.notices == [None, 0.0]
    assert stop.leaving


def test_a_suggestion_is_no_request(stop: Stop) -> None:
    stop.suggest()
    assert (stop.leaving, stop.requested, stop.notices) == (True, False, [])
