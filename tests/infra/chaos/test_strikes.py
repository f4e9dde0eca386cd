import json
import threading
from collections.abc import Callable

import pytest

from infra.local.chaos.dice import Dice, Tally
from infra.local.chaos.exchange import CallerGone, Request, Response
from infra.local.chaos.spec import ChaosSpec
from infra.local.chaos.strikes import (
    FIRST_GUESS_SECONDS,
    KILL,
    MOST_PER_SUBTASK,
    NOTICE,
    Strikes,
    start_timer,
)
from tests.infra.chaos.requests import OK, Emulator, s3


class Timers:
    """Timers that end when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Callable[[], object]]] = []
        self.cancelled = 0

    def start(self, seconds: float, act: Callable[[], object]) -> Callable[[], None]:
        self.waiting.append((seconds, act))
        return self._cancel

    def _cancel(self) -> None:
        self.cancelled += 1

    def fire(self) -> None:
        for _, act in self.waiting:
            act()


class World:
    """Strikes on workers that are all there."""

    def __init__(self, spec: ChaosSpec, *, alive: bool = True) -> None:
        self.timers, self.tally, self.emulator = Timers(), Tally(), Emulator()
        self.struck: list[tuple[str, str]] = []
        self.alive = alive
        dice = Dice(spec.seed, "strikes")
        self.strikes = Strikes(spec, dice, self.tally, timer=self.timers.start)
        self.strikes.arm(KILL, lambda worker: self.hit(KILL, worker))
        self.strikes.arm(NOTICE, lambda worker: self.hit(NOTICE, worker))

    def hit(self, kind: str, worker: str) -> bool:
        self.struck.append((kind, worker))
        return self.alive

    def send(self, request: Request) -> Response:
        return self.strikes(request, self.emulator)

    def begin(self, attempt: str, subtask: str = "train-000000") -> None:
        assert self.send(record(attempt, subtask)) == OK

    def deliver(self, attempt: str, subtask: str = "train-000000") -> Response:
        key = f"results/j/000001/{subtask}/{attempt}.safetensors"
        return self.send(s3("PUT", key, b"r", caller="local-1"))


def record(attempt: str, subtask: str = "train-000000", outcome: str | None = None) -> Request:
    key = f"attempts/j/000001/{subtask}/{attempt}.json"
    return s3("PUT", key, json.dumps({"outcome": outcome}).encode(), caller="local-1")


A1, A2 = "a" * 16, "b" * 16


def test_a_worker_is_killed_within_the_time_that_attempts_take() -> None:
    world = World(ChaosSpec(kill=1.0))
    world.begin(A1)
    ((seconds, _),) = world.timers.waiting
    assert 0 <= seconds <= 2 * FIRST_GUESS_SECONDS
    assert world.struck == []
    world.timers.fire()
    assert world.struck == [(KILL, "local-1")]
    assert world.tally.snapshot() == {KILL: 1}


def test_whoever_is_quicker_is_killed_as_it_delivers_and_only_once() -> None:
    stored = 0
    for seed in range(40):
        world = World(ChaosSpec(kill=1.0, seed=seed))
        world.begin(A1)
        with pytest.raises(CallerGone):
            world.deliver(A1)
        world.timers.fire()
        assert world.struck == [(KILL, "local-1")]
        assert world.timers.cancelled == 1
        stored += len(world.emulator.seen) - 1
    assert 8 < stored < 32  # some results were stored before their worker died


def test_a_notice_lets_the_result_through() -> None:
    world = World(ChaosSpec(notice=1.0))
    world.begin(A1)
    assert world.deliver(A1) == OK
    assert world.struck == [(NOTICE, "local-1")]
    assert world.emulator.seen[-1].body == b"r"


def test_each_attempt_is_drawn_once_however_often_it_beats() -> None:
    world = World(ChaosSpec(kill=1.0))
    world.begin(A1)
    world.begin(A1)
    assert len(world.timers.waiting) == 1
    half = World(ChaosSpec(kill=0.3, notice=0.3))
    for number in range(300):
        half.begin(f"{number:016d}", f"train-{number:06d}")
    half.timers.fire()
    counts = half.tally.snapshot()
    assert 60 < counts[KILL] < 120
    assert 40 < counts[NOTICE] < 90  # of those that are not killed


def test_initialization_and_evaluation_are_left_alone() -> None:
    world = World(ChaosSpec(kill=1.0))
    world.begin(A1, "initialize")
    world.begin(A2, "evaluate-000000")
    assert world.deliver(A2, "evaluate-000000") == OK
    assert world.timers.waiting == []


def test_an_attempt_that_ended_otherwise_is_let_off() -> None:
    world = World(ChaosSpec(kill=1.0))
    world.begin(A1)
    world.send(record(A1, outcome="lease-lost"))
    world.timers.fire()
    assert world.struck == []


def test_a_subtask_is_struck_a_few_times_at_most() -> None:
    world = World(ChaosSpec(kill=1.0))
    for number in range(20):
        world.begin(f"{number:016d}")
    assert len(world.timers.waiting) == MOST_PER_SUBTASK
    world.begin(A1, "train-000001")
    assert len(world.timers.waiting) == MOST_PER_SUBTASK + 1


def test_a_record_that_was_not_stored_begins_nothing() -> None:
    world = World(ChaosSpec(kill=1.0))
    world.emulator.answer = Response(503, {}, b"")
    world.send(record(A1))
    assert world.timers.waiting == []


def test_whoever_is_gone_already_is_not_counted() -> None:
    world = World(ChaosSpec(kill=1.0), alive=False)
    world.begin(A1)
    world.timers.fire()
    assert world.struck == [(KILL, "local-1")]
    assert world.tally.snapshot() == {}


def test_after_the_end_nobody_is_struck() -> None:
    world = World(ChaosSpec(kill=1.0))
    world.begin(A1)
    world.strikes.close()
    world.timers.fire()
    assert world.struck == []


def test_others_pass() -> None:
    world = World(ChaosSpec(kill=1.0))
    assert world.send(s3("GET", "attempts/j/000001/train-000000/x.json")) == OK
    assert world.send(s3("PUT", "state/j/head.json", b"{}")) == OK
    assert world.deliver(A1) == OK  # of an attempt that nobody saw begin


def test_the_guess_follows_what_attempts_take(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("infra.local.chaos.strikes.time.monotonic", lambda: now)
    world = World(ChaosSpec(notice=0.5, seed=4))
    for number in range(60):
        world.begin(f"{number:016d}", f"train-{number:06d}")
        now += 10
        world.deliver(f"{number:016d}", f"train-{number:06d}")
    longest = max(seconds for seconds, _ in world.timers.waiting)
    assert 5 < longest <= 20


def test_a_real_timer_fires_and_can_be_called_off() -> None:
    fired, never = threading.Event(), threading.Event()
    start_timer(0.0, fired.set)
    assert fired.wait(10)
    start_timer(60.0, never.set)()
    assert not never.is_set()
