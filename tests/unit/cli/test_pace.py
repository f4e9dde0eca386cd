import pytest

from spotgrad.cli.pace import Pace, duration_text


def paced(*seen: tuple[float, int]) -> Pace:
    pace = Pace()
    for at, count in seen:
        pace.observe(at, count)
    return pace


@pytest.mark.parametrize(
    "seen", [(), ((0, 5),), ((0, 5), (10, 5)), ((3, 5), (3, 6)), ((0, 5), (10, 4))]
)
def test_without_progress_nobody_knows(seen: tuple[tuple[float, int], ...]) -> None:
    assert paced(*seen).seconds_left(10) is None


def test_time_left_follows_the_rate() -> None:
    assert paced((0, 10), (10, 30)).seconds_left(100) == 50


def test_what_is_long_past_does_not_count() -> None:
    slow_then_fast = paced((0, 0), (1000, 10), (1060, 70), (1120, 130))
    assert slow_then_fast.seconds_left(60) == 60


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 00 min"),
        (90_061, "25 h 01 min"),
    ],
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
