import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from worker_image import main
from worker_image.interruption import SIGNALS, Stop
from worker_image.start import start


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_signals_are_heard_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(stop: Stop, **options: Any) -> int:
        assert options == {"until_idle_seconds": 1.0, "slow_seconds": 2.0}
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(10)
        return 7

    monkeypatch.setattr(main, "run", run)
    assert start(until_idle_seconds=1.0, slow_seconds=2.0) == 7


def test_the_end_of_standard_input_is_a_request_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()

    class Stdin:
        def fileno(self) -> int:
            return reader

    def run(stop: Stop, **_: Any) -> int:
        os.write(writer, b"not the end")
        assert not stop.requested
        os.close(writer)
        assert stop.wait(10)
        return 0

    monkeypatch.setattr(main, "run", run)
    monkeypatch.setattr("sys.stdin", Stdin())
    assert start(until_idle_seconds=None, slow_seconds=0, leave_with_parent=True) == 0
    os.close(reader)
