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
    stop.request()
    stop.request()
    assert stop.wait(3_600)
    assert stop.wait(3_600)
