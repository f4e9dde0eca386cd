"""The faults of one run put together: the proxy that processes talk through, and the delivery.

Who is struck is not known here: whoever starts workers and functions arms it with the means.
"""

import signal
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Final, Self

from infra.local.chaos.corruption import Corruption
from infra.local.chaos.crashes import KIND as CRASH
from infra.local.chaos.crashes import Crash, Crashes
from infra.local.chaos.deliveries import Deliveries, Later
from infra.local.chaos.dice import Dice, Tally
from infra.local.chaos.exchange import Forward, through
from infra.local.chaos.machines import Machines
from infra.local.chaos.proxy import Proxy
from infra.local.chaos.sends import Sends
from infra.local.chaos.spec import ChaosSpec
from infra.local.chaos.strikes import KILL, NOTICE, Strikes, start_timer
from infra.local.chaos.throttling import Throttling
from infra.local.delivery import Delivery
from spotgrad.settings import variable
from spotgrad.system import SystemClock

SendSignal = Callable[[str, int], bool]
"""Sends a signal to the worker of that name; returns whether it was there."""

NOTICE_SECONDS: Final = 5
"""From a notice to the end of the machine: EC2's two minutes, as short as everything here."""
_POLL_SECONDS: Final = 0.5


class Injector:
    """A context manager; faults happen until ``calm`` is called."""

    def __init__(self, spec: ChaosSpec, emulator_url: str) -> None:
        self._spec = spec
        self._calm = threading.Event()
        self._tally = Tally(spec.kinds)
        self._strikes = Strikes(spec, self._dice("strikes"), self._tally)
        self._crash: Crash = lambda _name: False
        self._notices = self._dice("notice")
        self._machines = Machines()
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

    def worker_environment(self, name: str) -> Mapping[str, str]:
        """Return what a worker has to know of its machine."""
        return {
            variable("metadata_endpoint"): self._machines.endpoint(name),
            variable("notice_poll_seconds"): str(_POLL_SECONDS),
            variable("notice_seconds"): str(NOTICE_SECONDS),
        }

    def arm_workers(self, send_signal: SendSignal) -> None:
        """Say how a worker is signalled; call it before the first one starts."""
        self._strikes.arm(KILL, lambda worker: send_signal(worker, signal.SIGKILL))
        self._strikes.arm(NOTICE, lambda worker: self._give_notice(worker, send_signal))

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
        self._machines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _give_notice(self, worker: str, send_signal: SendSignal) -> bool:
        """Let a machine go, announced as EC2 does it or as ECS does it; return whether it was."""
        by_signal = self._notices.pick((True, False))
        if not send_signal(worker, signal.SIGTERM if by_signal else 0):
            return False
        if not by_signal:
            at = SystemClock().now() + timedelta(seconds=NOTICE_SECONDS)
            self._machines.announce(worker, at)
        start_timer(NOTICE_SECONDS, lambda: send_signal(worker, signal.SIGKILL))
        return True

    def _dice(self, kind: str) -> Dice:
        return Dice(self._spec.seed, kind, self._calm)

    def _crash_function(self, name: str) -> bool:
        return self._crash(name)
