"""The faults of one run put together: the proxy that processes talk through, and the delivery.

Who is struck is not known here: whoever starts workers and functions arms it with the means.
"""

import signal
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from infra.local.chaos.corruption import Corruption
from infra.local.chaos.crashes import KIND as CRASH
from infra.local.chaos.crashes import Crash, Crashes
from infra.local.chaos.deliveries import Deliveries, Later
from infra.local.chaos.dice import Dice, Tally
from infra.local.chaos.exchange import Forward, through
from infra.local.chaos.proxy import Proxy
from infra.local.chaos.sends import Sends
from infra.local.chaos.spec import ChaosSpec
from infra.local.chaos.strikes import KILL, NOTICE, Strikes
from infra.local.chaos.throttling import Throttling
from infra.local.delivery import Delivery

SendSignal = Callable[[str, int], bool]
"""Sends a signal to the worker of that name; returns whether it was there."""


class Injector:
    """A context manager; faults happen until ``calm`` is called."""

    def __init__(self, spec: ChaosSpec, emulator_url: str) -> None:
        self._spec = spec
        self._calm = threading.Event()
        self._tally = Tally(spec.kinds)
        self._strikes = Strikes(spec, self._dice("strikes"), self._tally)
        self._crash: Crash = lambda _name: False
        faults = (
            Throttling(spec.throttle, self._dice("throttle"), self._tally),
            Crashes(spec.aggregator_crash, self._dice(CRASH), self._tally, self._crash_function),
            self._strikes,
            Corruption(spec.corrupt, self._dice("corrupt"), self._tally),
            Sends(spec, self._dice("sends"), self._tally),
        )

        def route(forward: Forward) -> Forward:
            return through(faults, forward)

        self._proxy = Proxy(emulator_url, route)

    @property
    def url(self) -> str:
        """Return where workers and functions find AWS."""
        return self._proxy.url

    @property
    def counts(self) -> Mapping[str, int]:
        """Return how often each fault that was asked for was injected."""
        return self._tally.snapshot()

    def deliver(self, later: Later, inner: Delivery) -> Delivery:
        """Return the delivery of the functions' messages."""
        return Deliveries(self._spec, self._dice("deliveries"), self._tally, later, inner)

    def arm_workers(self, send_signal: SendSignal) -> None:
        """Say how a worker is signalled; call it before the first one starts."""
        self._strikes.arm(KILL, lambda worker: send_signal(worker, signal.SIGKILL))
        self._strikes.arm(NOTICE, lambda worker: send_signal(worker, signal.SIGTERM))

    def arm_functions(self, crash: Crash) -> None:
        """Say how a function's process is killed; call it before the first invocation."""
        self._crash = crash

    def calm(self) -> None:
        """Inject nothing more; what is under way goes on through the proxy."""
        self._calm.set()
        self._strikes.close()

    def close(self) -> None:
        """Stop listening."""
        self.calm()
        self._proxy.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _dice(self, kind: str) -> Dice:
        return Dice(self._spec.seed, kind, self._calm)

    def _crash_function(self, name: str) -> bool:
        return self._crash(name)
