import threading
from collections.abc import Callable

import pytest

from spotgrad.errors import AccessDenied, StoreUnavailable
from tests.fakes.clock import FakeClock
from worker_image.rounds import Rounds


def rounds(visit: Callable[[], None], clock: FakeClock | None = None) -> Rounds:
    return Rounds(visit, clock or FakeClock(), seconds=8, name="test rounds")


def raising(error: Exception) -> Callable[[], None]:
    def visit() -> None:
        raise error

    return visit


def test_visits_come_at_their_pace_and_after_trouble_sooner() -> None:
    clock = FakeClock()
    visits: list[float] = []
    made = rounds(lambda: visits.append(clock.monotonic()), clock)
    assert made.next_at == 8
    clock.advance(8)
    made.make()
    assert made.next_at == 16
    troubled = rounds(raising(StoreUnavailable("503")), clock)
    troubled.make()
    assert troubled.next_at == 10
    troubled.check()
    assert visits == [8]


def test_any_other_error_is_raised_by_whoever_checks() -> None:
    made = rounds(raising(AccessDenied("no")))
    made.check()
    made.make()
    for _ in range(2):
        with pytest.raises(AccessDenied):
            made.check()


def test_the_thread_visits_when_it_is_time_and_ends_with_the_block() -> None:
    clock, visited = FakeClock(), threading.Event()
    made = rounds(visited.set, clock)
    clock.advance(8)
    with made:
        assert visited.wait(10)
    assert not [thread for thread in threading.enumerate() if thread.name == "test rounds"]


def test_the_thread_ends_by_itself_at_an_error() -> None:
    clock = FakeClock()
    made = rounds(raising(AccessDenied("no")), clock)
    clock.advance(8)
    with made:
        made._thread.join(10)
        assert not made._thread.is_alive()


def test_a_block_that_ends_early_does_not_wait_for_the_next_visit() -> None:
    visits: list[int] = []
    with pytest.raises(KeyError), rounds(lambda: visits.append(1)):
        raise KeyError
    assert visits == []
