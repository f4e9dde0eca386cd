"""Fault ``aggregator-crash``: a function is killed at one of its writes, done or not yet done."""

from collections.abc import Callable
from typing import Final

from infra.local.chaos.dice import Dice, Tally
from infra.local.chaos.exchange import CallerGone, Forward, Request, Response

KIND: Final = "aggregator-crash"
CRASHING: Final = ("AggregateFunction", "ReconcileFunction")
"""The functions that commit merges. Planning is retried after its message's visibility alone: with
half a minute of waiting per crash it would make the run slow, and show nothing new."""

Crash = Callable[[str], bool]
"""Kills the execution environment of that name; returns whether there was one."""

_SENDS: Final = frozenset({"SendMessage", "SendMessageBatch"})


class Crashes:
    """Kills the writer with the same probability at each write, half of the times after it."""

    def __init__(self, probability: float, dice: Dice, tally: Tally, crash: Crash) -> None:
        self._probability = probability
        self._dice = dice
        self._tally = tally
        self._crash = crash

    def __call__(self, request: Request, forward: Forward) -> Response:
        """Let the request through, or end its sender.

        Raises:
            CallerGone: its sender was ended.
        """
        caller = request.caller or ""
        if not (caller.startswith(CRASHING) and _is_write(request)):
            return forward(request)
        if not self._dice.hit(self._probability):
            return forward(request)
        if self._dice.pick((True, False)):
            forward(request)  # the write is done; its answer is lost with the process
        if self._crash(caller):
            self._tally.add(KIND)
        raise CallerGone(caller)


def _is_write(request: Request) -> bool:
    return request.put_key is not None or request.operation in _SENDS
