"""Faults ``kill`` and ``notice``: a worker is struck in the middle of a training attempt.

An attempt's first record is its beginning; what is to strike it is drawn there, and strikes within
the time that attempts take. If the attempt is quicker than that, it is struck as it delivers, so
that the number of attempts struck does not hang on anyone's speed.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from infra.local.chaos.dice import Dice, Tally
from infra.local.chaos.exchange import CallerGone, Forward, Request, Response
from infra.local.chaos.spec import ChaosSpec
from spotgrad.protocol.keys import RESULTS_PREFIX, AttemptKey, ResultKey

KILL: Final = "kill"
NOTICE: Final = "notice"
MOST_PER_SUBTASK: Final = 5
"""More strikes at one subtask would use up what the job file grants it (retries.interruptions),
and a run with kill=1 would never end."""
FIRST_GUESS_SECONDS: Final = 0.1
"""How long attempts take, before the first one has shown it."""

Strike = Callable[[str], bool]
"""Strikes the worker of that name; returns whether it was there."""

StartTimer = Callable[[float, Callable[[], object]], Callable[[], None]]
"""Lets something happen after some seconds; returns how to call it off."""


@dataclass(frozen=True)
class _Doom:
    """What is to happen to one attempt."""

    kind: str
    worker: str
    cancel: Callable[[], None]


def start_timer(seconds: float, act: Callable[[], object]) -> Callable[[], None]:
    """Let ``act`` happen after ``seconds``, in a thread; return how to call it off."""
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
    return timer.cancel


class Strikes:
    """Watches attempts go by, and ends some of their workers."""

    def __init__(
        self, spec: ChaosSpec, dice: Dice, tally: Tally, *, timer: StartTimer = start_timer
    ) -> None:
        self._spec = spec
        self._dice = dice
        self._tally = tally
        self._timer = timer
        self._weapons: dict[str, Strike] = {}
        self._lock = threading.Lock()
        self._began_at: dict[str, float] = {}
        self._dooms: dict[str, _Doom] = {}
        self._per_subtask: Counter[tuple[int, str]] = Counter()
        self._typical_seconds = FIRST_GUESS_SECONDS

    def arm(self, kind: str, strike: Strike) -> None:
        """Say how workers are killed, or given notice."""
        self._weapons[kind] = strike

    def close(self) -> None:
        """Strike nobody any more."""
        for attempt in list(self._dooms):
            self._take(attempt)

    def __call__(self, request: Request, forward: Forward) -> Response:
        """Let the request through; it may be the last of its sender.

        Raises:
            CallerGone: its sender was ended.
        """
        path = request.put_key or ""
        if path.startswith("attempts/"):
            response = forward(request)
            if response.ok:
                self._on_record(AttemptKey.parse(path), request)
            return response
        if path.startswith(RESULTS_PREFIX):
            return self._on_result(ResultKey.parse(path), request, forward)
        return forward(request)

    def _on_record(self, key: AttemptKey, request: Request) -> None:
        """Draw what becomes of an attempt that begins; let alone one that has ended."""
        if json.loads(request.body)["outcome"] is not None:
            self._take(key.attempt)
        elif key.subtask.startswith("train") and self._begins(key.attempt):
            kind = self._drawn(key)
            if kind is not None and request.caller is not None:
                self._doom(key.attempt, kind, request.caller)

    def _begins(self, attempt: str) -> bool:
        with self._lock:
            known = attempt in self._began_at
            self._began_at.setdefault(attempt, time.monotonic())
            return not known

    def _drawn(self, key: AttemptKey) -> str | None:
        """Return the fault that is to end the attempt, if one is."""
        chances = {KILL: self._spec.kill, NOTICE: self._spec.notice}
        kind = next((kind for kind, chance in chances.items() if self._dice.hit(chance)), None)
        with self._lock:
            subtask = (key.epoch, key.subtask)
            if kind is None or self._per_subtask[subtask] >= MOST_PER_SUBTASK:
                return None
            self._per_subtask[subtask] += 1
        return kind

    def _doom(self, attempt: str, kind: str, worker: str) -> None:
        # Up to twice as long as attempts take: half of the strikes meet the result on its way.
        delay = self._dice.seconds(2 * self._typical_seconds)
        with self._lock:
            cancel = self._timer(delay, lambda: self._strike_now(attempt))
            self._dooms[attempt] = _Doom(kind, worker, cancel)

    def _on_result(self, key: ResultKey, request: Request, forward: Forward) -> Response:
        doom = self._take(key.attempt)
        if doom is None:
            self._learn(key.attempt)
            return forward(request)
        if doom.kind == NOTICE:
            self._strike(doom)
            return forward(request)
        if self._dice.pick((True, False)):
            forward(request)  # the result is stored; its message is not deleted
        self._strike(doom)
        raise CallerGone(doom.worker)

    def _learn(self, attempt: str) -> None:
        with self._lock:
            began_at = self._began_at.get(attempt)
            if began_at is not None:
                self._typical_seconds += (time.monotonic() - began_at - self._typical_seconds) / 8

    def _strike_now(self, attempt: str) -> None:
        doom = self._take(attempt)
        if doom is not None:
            self._strike(doom)

    def _strike(self, doom: _Doom) -> None:
        if self._weapons[doom.kind](doom.worker):
            self._tally.add(doom.kind)

    def _take(self, attempt: str) -> _Doom | None:
        """Return what was to happen to the attempt; it is the taker's to do."""
        with self._lock:
            doom = self._dooms.pop(attempt, None)
        if doom is not None:
            doom.cancel()
        return doom
