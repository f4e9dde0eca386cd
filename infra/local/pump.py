"""The event pump: drives the topology's functions from its queues and schedules, in threads.

It stands in for Lambda's event source mappings and EventBridge's scheduler and for nothing else:
it decides nothing about jobs, and a run survives its loss, for all state is in the bucket.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from infra.local.cloud import Cloud
from infra.local.counters import Counters
from infra.local.delivery import Delivery, once
from infra.local.poller import Invoke, Poller, Subscription
from infra.local.scale import Scale
from infra.local.scheduler import Now, Schedule, Ticker
from infra.local.topology import LOCAL_PSEUDO, FunctionResource, Topology

if TYPE_CHECKING:  # the stubs are a development tool
    from mypy_boto3_sqs import SQSClient

_AFTER_KILL_SECONDS = 1.0


class Invoker(Protocol):
    """A deployed function: ``infra.local.function.FunctionPool``, or that with chaos around it."""

    def invoke(self, event: object) -> object:
        """Run the function; raises ``InvocationFailed``."""
        ...

    def close(self) -> None:
        """Kill whatever runs; invocations under way fail at once."""
        ...


@dataclass(frozen=True)
class Wiring:
    """What the pump is made from."""

    topology: Topology
    cloud: Cloud
    functions: Mapping[str, Invoker]
    sqs: "SQSClient"
    now: Now
    deliver: Delivery = once
    counters: Counters = field(default_factory=Counters)


class Pump:
    """Threads that poll and tick, from ``start`` to ``stop``."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._stopping = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._guard, args=(task,), daemon=True)
            for function in wiring.topology.functions.values()
            for task in self._tasks(function)
        ]

    @property
    def counters(self) -> Counters:
        """What each function went through so far."""
        return self._wiring.counters

    def start(self) -> None:
        """Begin to poll and to tick."""
        for thread in self._threads:
            thread.start()

    def check(self) -> None:
        """Raise what ended one of the pump's threads: a defect of ours, never a function's."""
        if self._failures:
            raise RuntimeError("the event pump broke") from self._failures[0]

    def stop(self, *, grace_seconds: float = 1.0) -> None:
        """Stop polling, let invocations end for ``grace_seconds``, kill the rest; then return."""
        self._stopping.set()
        self._join(grace_seconds)
        for invoker in self._wiring.functions.values():
            invoker.close()
        self._join(_AFTER_KILL_SECONDS)

    def _join(self, seconds: float) -> None:
        ends_at = time.monotonic() + seconds
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, ends_at - time.monotonic()))

    def _guard(self, task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:  # noqa: BLE001 -- a thread's edge: kept for check()
            self._failures.append(error)

    def _tasks(self, function: FunctionResource) -> list[Callable[[], None]]:
        invoke = self._wiring.functions[function.logical_id].invoke
        tasks: list[Callable[[], None]] = [
            Poller(subscription, self._wiring.sqs, self._stopping, number=number).run
            for subscription in self._subscriptions(function, invoke)
            for number in range(subscription.source.maximum_concurrency)
        ]
        if function.schedule_seconds is not None:
            schedule = _schedule(function, function.schedule_seconds, invoke)
            ticker = Ticker(schedule, self.counters, self._wiring.now, self._stopping)
            tasks.append(ticker.run)
        return tasks

    def _subscriptions(self, function: FunctionResource, invoke: Invoke) -> list[Subscription]:
        queues, urls = self._wiring.topology.queues, self._wiring.cloud.queue_urls
        return [
            Subscription(
                function=function.logical_id,
                source=source,
                queue_url=urls[source.queue],
                queue_arn=queues[source.queue].arn,
                invoke=invoke,
                counters=self.counters,
                deliver=self._wiring.deliver,
                scale=Scale(source.maximum_concurrency),
            )
            for source in function.event_sources
        ]


def _schedule(function: FunctionResource, period_seconds: int, invoke: Invoke) -> Schedule:
    return Schedule(
        function=function.logical_id,
        period_seconds=period_seconds,
        invoke=invoke,
        region=LOCAL_PSEUDO["AWS::Region"],
        account=LOCAL_PSEUDO["AWS::AccountId"],
    )
