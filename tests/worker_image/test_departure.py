import pytest

from tests.fakes.clock import FakeClock
from tests.worker_image.world import FakeStop
from worker_image.departure import FIRST_UPLOAD_SECONDS, Departure, StopRequested
from worker_image.watch import Watch


class Trip:
    """A subtask of ``left`` batches, asked about after each."""

    def __init__(self, left: int | None = 10, *, notice_seconds: float = 60) -> None:
        self.clock = FakeClock()
        self.stop = FakeStop()
        self.departure = Departure(self.stop, self.clock, notice_seconds=notice_seconds)
        self.watch = Watch(lambda: None)
        self.departure.begin()
        self.check()
        self.watch.left = left

    def check(self) -> None:
        self.departure.check(self.watch)

    def batch(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.watch.worked += 1
        if self.watch.left is not None:
            self.watch.left -= 1
        self.check()


def test_without_a_notice_everything_goes_on() -> None:
    trip = Trip()
    for _ in range(9):
        trip.batch(1_000)


def test_what_fits_goes_on_to_its_end() -> None:
    trip = Trip(left=10)
    trip.batch(30)  # the first one warms up
    trip.batch(1)
    trip.stop.request()
    for _ in range(8):
        trip.batch(1)


def test_what_does_not_fit_ends_at_once() -> None:
    trip = Trip(left=100)
    trip.batch(1)
    trip.stop.request()
    with pytest.raises(StopRequested, match=r"needs 103\.0 s, 59\.0 s are left"):
        trip.batch(1)


def test_time_is_kept_for_the_upload_and_measured_once_there_was_one() -> None:
    def fits(uploaded_in: float | None) -> bool:
        trip = Trip(left=3)
        if uploaded_in is not None:
            trip.departure.uploaded(uploaded_in)
        trip.batch(1)
        trip.stop.request(4.0)
        try:
            trip.batch(1)
        except StopRequested:
            return False
        return True

    assert FIRST_UPLOAD_SECONDS > 3
    assert not fits(None)
    assert fits(0.01)
    assert fits(1.0)
    assert not fits(1.5)


def test_the_notice_counts_from_the_check_before_it() -> None:
    trip = Trip(left=10, notice_seconds=20)
    trip.batch(6)
    trip.stop.request()
    with pytest.raises(StopRequested, match=r"14\.0 s are left"):
        trip.batch(6)


def test_the_earliest_of_several_ends_counts() -> None:
    trip = Trip(left=12, notice_seconds=90)
    trip.batch(1)
    trip.stop.request(120.0)
    trip.batch(1)
    trip.stop.request()  # and SIGTERM on top of it
    trip.batch(1)
    trip.stop.request()
    trip.batch(1)
    trip.stop.request(0.0)
    with pytest.raises(StopRequested):
        trip.batch(1)


def test_what_has_not_begun_or_cannot_be_judged_is_given_back() -> None:
    trip = Trip(left=10)
    trip.stop.request()
    with pytest.raises(StopRequested, match="asked to stop"):
        trip.check()
    unknown = Trip(left=None)
    unknown.stop.request()
    with pytest.raises(StopRequested):
        unknown.batch(1)


def test_what_is_done_is_uploaded_rather_than_saved() -> None:
    trip = Trip(left=2)
    trip.batch(1)
    trip.stop.request(0.0)
    trip.batch(1)


def test_every_subtask_is_measured_anew() -> None:
    trip = Trip(left=3)
    trip.batch(100)
    trip.batch(100)
    trip.clock.advance(1_000)
    trip.departure.begin()
    trip.watch = Watch(lambda: None)
    trip.watch.left = 5
    trip.batch(1)
    trip.stop.request()
    trip.batch(1)
