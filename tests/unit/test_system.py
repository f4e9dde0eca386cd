import re
from datetime import UTC, timedelta

from spotgrad.ports import Clock, NewId
from spotgrad.system import SystemClock, new_id


def test_now_is_aware_and_in_utc() -> None:
    clock: Clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert clock.now() - clock.now() <= timedelta(0)


def test_monotonic_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic() for _ in range(1000)]
    assert readings == sorted(readings)


def test_an_id_is_sixteen_lower_case_hexadecimal_digits_and_never_the_same() -> None:
    draw: NewId = new_id
    drawn = {draw() for _ in range(1000)}
    assert len(drawn) == 1000
    assert all(re.fullmatch("[0-9a-f]{16}", identifier) for identifier in drawn)
