"""Processes that run one request at a time, in whatever order somebody says.

Each process is a thread of its own, but only one ever runs: it stands still before every request
to a store or queue until it is told how that request fares. So any interleaving of any number of
steps can be played, the product's own code runs in it unchanged, and the same orders always give
the same history. What never changes once it is written is read without standing still: such a read
commutes with everything.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeVar

import pytest

from spotgrad.errors import ConditionFailed, StoreUnavailable
from spotgrad.ports import Absent, Message, ObjectInfo, StoredObject
from tests.fakes.faults import Crashed
from tests.fakes.queue import FakeQueue
from tests.fakes.store import FakeStore
from worker_image.rounds import Rounds

Answer = TypeVar("Answer")

_here = threading.local()

HANGS_SECONDS: Final = 60.0
"""Of real time: a process that neither asks nor ends by then never will."""
CHANGING: Final = ("head.json", "control.json", "job.yaml")
"""Ends of the keys whose objects are changed in place."""


class Fate(Enum):
    """How a request fares."""

    DONE = auto()
    UNAVAILABLE = auto()
    """Nothing happens (SlowDown)."""
    ANSWER_LOST = auto()
    """It happens, but the process sees a timeout."""
    CONFLICT = auto()
    """409 to a conditional write: nothing happens."""
    BEATEN_BY_ITSELF = auto()
    """A conditional write that an SDK repeated on its own: it happened, and its echo is 412."""
    HALFWAY = auto()
    """The process dies while it sends: a part is out."""
    DAMAGED = auto()
    """The bytes are changed on their way."""
    RAISES = auto()
    """The user's code raises."""
    NAN = auto()
    """A bad host computes nonsense."""


@dataclass(frozen=True)
class Request:
    """What a process is about to do."""

    operation: str
    key: str = ""
    conditional: bool = False

    @property
    def fates(self) -> tuple[Fate, ...]:
        """Return all that can come of it."""
        if self.operation == "train":
            return Fate.DONE, Fate.RAISES, Fate.NAN
        found = [Fate.DONE, Fate.UNAVAILABLE, Fate.ANSWER_LOST]
        if self.conditional:
            found += [Fate.CONFLICT, Fate.BEATEN_BY_ITSELF]
        if self.operation == "send":
            found.append(Fate.HALFWAY)
        if self.operation == "put" and self.key.startswith("results/"):
            found.append(Fate.DAMAGED)
        return tuple(found)


class Process:
    """One worker or function. It begins when it is resumed for the first time.

    Attributes:
        request: what it is about to do; nothing before its start and after its end.
        over: it has returned, raised or died.
        frozen: its machine stands still: no heartbeat.
    """

    def __init__(self, stage: "Stage", name: str, work: Callable[[], None], born_at: float) -> None:
        self.name = name
        self.born_at = born_at
        self.request: Request | None = None
        self.over = False
        self.frozen = False
        self.rounds: list[Rounds] = []
        self._stage = stage
        self._work = work
        self._fate = Fate.DONE
        self._dead = False
        self._error: BaseException | None = None
        self._turn = threading.Lock()
        self._turn.acquire()
        self._thread = threading.Thread(target=self._go, name=name, daemon=True)
        self._thread.start()

    def resume(self, fate: Fate = Fate.DONE) -> None:
        """Let its request fare so, and let it run up to its next one.

        Raises:
            Exception: what its code raised.
        """
        if self.over:
            return
        self._fate = fate
        self._stage.let_run(self, self._turn)
        if self.over:
            self._thread.join()
            if self._error is not None:
                raise self._error

    def kill(self) -> None:
        """Let it vanish where it stands: from now on nothing that it does has an effect."""
        self._dead = True
        self.resume()

    def ask(self, request: Request) -> Fate:
        """Stand still until resumed; called by the process itself."""
        if not self._dead:
            self.request = request
            self._stage.give_turn_back()
            self._turn.acquire()
            self.request = None
        if self._dead:
            raise Crashed(f"{self.name} died before {request}")
        return self._fate

    def die(self, why: str) -> None:
        """Vanish at once; called by the process itself."""
        self._dead = True
        raise Crashed(f"{self.name}: {why}")

    def _go(self) -> None:
        _here.process = self
        self._turn.acquire()
        try:
            if not self._dead:
                self._work()
        except Crashed:
            pass
        except BaseException as error:  # noqa: BLE001 - whoever resumed it raises it again
            self._error = error
        self.over = True
        self._stage.give_turn_back()


def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the rounds of leases and records be made by whoever moves the clock, not by threads."""

    def enter(rounds: Rounds) -> Rounds:
        _here.process.rounds.append(rounds)
        return rounds

    def leave(rounds: Rounds, *error: object) -> None:
        del error
        _here.process.rounds.remove(rounds)

    monkeypatch.setattr(Rounds, "__enter__", enter)
    monkeypatch.setattr(Rounds, "__exit__", leave)


class Stage:
    """Whose turn it is, and the way from a process to the fakes behind it."""

    def __init__(self, store: FakeStore, queue: FakeQueue) -> None:
        self.running: Process | None = None
        self.store = _Store(self, store)
        self.queue = _Queue(self, queue)
        self._back = threading.Lock()
        self._back.acquire()

    def let_run(self, process: Process, turn: threading.Lock) -> None:
        """Give a process its turn; return when it stands still again."""
        self.running = process
        turn.release()
        if not self._back.acquire(timeout=HANGS_SECONDS):
            raise TimeoutError(f"{process.name} hangs")
        self.running = None

    def give_turn_back(self) -> None:
        """Let whoever called ``let_run`` go on."""
        self._back.release()

    def fate_of(self, request: Request) -> Fate:
        """Ask how a request fares; outside of any process it is done."""
        return Fate.DONE if self.running is None else self.running.ask(request)

    def perform(self, request: Request, effect: Callable[[Fate], Answer]) -> Answer:
        """Let the request fare as it is said; return the answer that its process gets."""
        fate = self.fate_of(request)
        if fate is Fate.UNAVAILABLE:
            raise StoreUnavailable(f"{request}: injected SlowDown")
        if fate is Fate.CONFLICT:
            raise ConditionFailed(f"{request}: injected 409")
        answer = effect(fate)
        if fate is Fate.ANSWER_LOST:
            raise StoreUnavailable(f"{request}: injected timeout after the effect")
        if fate is Fate.BEATEN_BY_ITSELF:
            raise ConditionFailed(f"{request}: injected 412 after the effect")
        return answer


class _Store:
    """The port ``ObjectSweeper``, as a process sees it."""

    def __init__(self, stage: Stage, store: FakeStore) -> None:
        self._stage = stage
        self._store = store

    def get(self, key: str) -> StoredObject:
        if not key.endswith(CHANGING):
            return self._store.get(key)
        return self._stage.perform(Request("get", key), lambda _: self._store.get(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._stage.perform(Request("list", prefix), lambda _: self._store.list(prefix))

    def put(self, key: str, body: bytes, *, only_if: Absent | str | None = None) -> str:
        def effect(fate: Fate) -> str:
            sent = damaged(body) if fate is Fate.DAMAGED else body
            return self._store.put(key, sent, only_if=only_if)

        return self._stage.perform(Request("put", key, only_if is not None), effect)

    def delete(self, key: str) -> None:
        self._stage.perform(Request("delete", key), lambda _: self._store.delete(key))


class _Queue:
    """The ports ``TaskQueue`` and ``TaskGauge``, as a process sees them."""

    def __init__(self, stage: Stage, queue: FakeQueue) -> None:
        self._stage = stage
        self._queue = queue

    def send(self, bodies: Sequence[str]) -> None:
        def effect(fate: Fate) -> None:
            if fate is Fate.HALFWAY and self._stage.running is not None:
                self._queue.send(bodies[: len(bodies) // 2])
                self._stage.running.die("cut off while it sent")
            self._queue.send(bodies)

        self._stage.perform(Request("send"), effect)

    def receive(self, *, most: int, wait_seconds: float) -> Sequence[Message]:
        def effect(_: Fate) -> Sequence[Message]:
            return self._queue.receive(most=most, wait_seconds=wait_seconds)

        return self._stage.perform(Request("receive"), effect)

    def extend(self, message: Message, *, lease_seconds: int) -> None:
        def effect(_: Fate) -> None:
            self._queue.extend(message, lease_seconds=lease_seconds)

        self._stage.perform(Request("extend"), effect)

    def delete(self, message: Message) -> None:
        self._stage.perform(Request("delete"), lambda _: self._queue.delete(message))

    def depth(self) -> int:
        return self._stage.perform(Request("depth"), lambda _: self._queue.depth())


def damaged(body: bytes) -> bytes:
    """Return a file that was changed on its way: half of them lack an end, the others a bit."""
    return body[:-3] if len(body) % 2 else body[:-1] + bytes([body[-1] ^ 1])
