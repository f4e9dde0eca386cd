import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from infra.local.counters import Counters, Counts
from infra.local.function import FunctionRaised, FunctionTimedOut
from infra.local.scheduler import Schedule, Ticker, scheduled_event

AT = datetime(2026, 3, 4, 5, 6, 7, 890_000, tzinfo=UTC)


def schedule(invoke: Any, period_seconds: float = 60) -> Schedule:
    return Schedule("ReconcileFunction", period_seconds, invoke, "eu-west-1", "123")


class Waits(threading.Event):
    """An event that says how long it was waited for, and is set after three waits."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout)
        return len(self.seconds) > 3


def test_the_event_is_eventbridges() -> None:
    event = scheduled_event(schedule(None), AT)
    assert len(str(event.pop("id"))) == 36
    assert event == {
        "version": "0",
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": "123",
        "time": "2026-03-04T05:06:07Z",
        "region": "eu-west-1",
        "resources": ["arn:aws:events:eu-west-1:123:rule/ReconcileFunction"],
        "detail": {},
    }


def test_it_ticks_once_per_period() -> None:
    events: list[object] = []
    waits, counters = Waits(), Counters()
    Ticker(schedule(events.append, 2), counters, lambda: AT, waits).run()
    assert waits.seconds == [2, 2, 2, 2]
    assert len(events) == 3
    assert counters.snapshot() == {"ReconcileFunction": Counts(invocations=3)}


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (FunctionRaised("x"), Counts(invocations=3, errors=3)),
        (FunctionTimedOut("x"), Counts(invocations=3, timeouts=3)),
    ],
)
def test_a_failed_tick_does_not_stop_the_next(error: Exception, counts: Counts) -> None:
    def fail(_event: object) -> None:
        raise error

    counters = Counters()
    Ticker(schedule(fail), counters, lambda: AT, Waits()).run()
    assert counters.snapshot() == {"ReconcileFunction": counts}
