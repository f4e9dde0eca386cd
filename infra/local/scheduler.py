"""Scheduled functions, as EventBridge invokes them: once per period, whatever the last one said."""

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from infra.local.counters import Counters, Counts
from infra.local.function import FunctionTimedOut, InvocationFailed
from infra.local.poller import Invoke

Now = Callable[[], datetime]


@dataclass(frozen=True)
class Schedule:
    """A function and its period."""

    function: str
    period_seconds: float
    invoke: Invoke
    region: str
    account: str


class Ticker:
    """Invokes one function again and again; a failed invocation is counted, the next tick comes."""

    def __init__(
        self, schedule: Schedule, counters: Counters, now: Now, stopping: threading.Event
    ) -> None:
        self._schedule = schedule
        self._counters = counters
        self._now = now
        self._stopping = stopping

    def run(self) -> None:
        """Tick until told to stop; the first tick comes one period after the start."""
        while not self._stopping.wait(self._schedule.period_seconds):
            self.tick()

    def tick(self) -> None:
        """Invoke the function once."""
        counts = Counts(invocations=1)
        try:
            self._schedule.invoke(scheduled_event(self._schedule, self._now()))
        except FunctionTimedOut:
            counts += Counts(timeouts=1)
        except InvocationFailed:
            counts += Counts(errors=1)
        self._counters.add(self._schedule.function, counts)


def scheduled_event(schedule: Schedule, at: datetime) -> dict[str, object]:
    """Return the event that EventBridge sends for a schedule."""
    rule = f"arn:aws:events:{schedule.region}:{schedule.account}:rule/{schedule.function}"
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": schedule.account,
        "time": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": schedule.region,
        "resources": [rule],
        "detail": {},
    }
