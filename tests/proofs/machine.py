"""An aggregator as a small-step machine: the real ``aggregate_results``, stopped at every request.

The step is run from its start with the answers that it has had so far; its first request without an
answer is the machine's next step. So a machine's whole state is its batch and the answers it has
had, which is small and can be compared; what is stepped through is the product's code.

What never changes once it is written (results, versions, the plan) is read without a step: a read
of such an object commutes with everything. Only the head is read step by step.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from spotgrad.errors import ConditionFailed, NotFound, Retry, StoreUnavailable
from spotgrad.ports import Absent, ObjectInfo, StoredObject
from spotgrad.protocol.keys import HeadKey, ResultKey
from spotgrad.protocol.tensors import digest
from spotgrad.steps import aggregate_results as product
from spotgrad.steps.world import World
from tests.builders import JOB
from tests.fakes.clock import FakeClock

HEAD: Final = HeadKey(JOB).render()

Answers = tuple[int, ...]
"""What a machine was told: the head's number by a GET (from 0 on), else one of these."""
DONE, REFUSED, TIMEOUT = -1, -2, -3  # REFUSED: 412 or 409

Batch = tuple[int, ...]
"""The results whose events a machine received together, by index."""


class End(Enum):
    """A machine has no next request."""

    RETURNED = auto()
    """Its messages will be acknowledged."""
    LOST = auto()
    """Somebody else committed first: it decides again, from the start."""
    GAVE_UP = auto()
    """It raised ``Retry``: its messages go back."""


@dataclass(frozen=True)
class Get:
    """GET head."""


@dataclass(frozen=True)
class Put:
    """PUT of an immutable object."""

    key: str


@dataclass(frozen=True)
class PutHead:
    """PUT head, by number; ``only_if`` is the number of the head that must be there, or None."""

    head: int
    only_if: int | None


@dataclass(frozen=True)
class Send:
    """Send to the subtasks queue."""

    bodies: tuple[str, ...]


@dataclass(frozen=True)
class Delete:
    """DELETE of an immutable object; no machine of the real protocol ever asks for it."""

    key: str


Request = Get | Put | PutHead | Send | Delete


class _Unanswered(BaseException):
    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.request = request


class _LostToOthers(Exception):
    pass


@dataclass
class Known:
    """Every head and every immutable object that any machine ever wrote, in any interleaving."""

    objects: dict[str, bytes]
    heads: list[bytes] = field(default_factory=list)
    _numbers: dict[bytes, int] = field(default_factory=dict)

    def number(self, head: bytes) -> int:
        """Return the number of a head, a new one for a head that was never seen."""
        if head not in self._numbers:
            self._numbers[head] = len(self.heads)
            self.heads.append(head)
        return self._numbers[head]

    def add(self, key: str, body: bytes) -> None:
        if self.objects.setdefault(key, body) != body:
            raise AssertionError(f"two contents for {key}: ids are not unique")


class _Script:
    """The ports of a step: answers from a script, and stops at the first request without one."""

    def __init__(self, known: Known, name: str, answers: Answers) -> None:
        self._known = known
        self._answers = answers
        self._given = 0
        self._name = name
        self._draws = 0

    def get(self, key: str) -> StoredObject:
        if key == HEAD:
            number = self._ask(Get())
            return StoredObject(self._known.heads[number], str(number))
        if key not in self._known.objects:
            raise NotFound(key)
        return StoredObject(self._known.objects[key], "immutable")

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        raise NotImplementedError(f"list {prefix}: aggregate never lists")

    def put(self, key: str, body: bytes, *, only_if: Absent | str | None = None) -> str:
        if key != HEAD:
            self._known.add(key, body)
            return self._written(Put(key), "immutable")
        number = self._known.number(body)
        condition = int(only_if) if isinstance(only_if, str) else None
        return self._written(PutHead(number, condition), str(number))

    def delete(self, key: str) -> None:
        self._ask(Delete(key))

    def send(self, bodies: Sequence[str]) -> None:
        self._ask(Send(tuple(bodies)))

    def new_id(self) -> str:
        """Draw the id that this machine, given this batch, uses for what it makes of this head.

        Drawn a second time, after a crash or a 409, it names the same content, which nobody has
        committed since: else the head would not be the same.
        """
        self._draws += 1
        return digest(f"{self._name}/{self._answers[0]}/{self._draws}".encode())[:16]

    def _written(self, request: Request, etag: str) -> str:
        answer = self._ask(request)
        if answer == REFUSED:
            raise ConditionFailed(f"{request}")
        if answer == TIMEOUT:
            raise StoreUnavailable(f"{request}")
        return etag

    def _ask(self, request: Request) -> int:
        if self._given == len(self._answers):
            raise _Unanswered(request)
        self._given += 1
        return self._answers[self._given - 1]


def one_lap(step: Callable[[], bool], job: str) -> None:
    """Stand in for ``until_committed``: a machine that lost begins again with an empty script."""
    if not step():
        raise _LostToOthers(job)


def next_of(
    known: Known, results: Sequence[ResultKey], index: int, batch: Batch, answers: Answers
) -> Request | End:
    """Return the next request of machine ``index``, or how its call ended."""
    script = _Script(known, f"{index}/{batch}", answers)
    world = World(script, script, FakeClock(), script.new_id)
    try:
        product.aggregate_results(world, JOB, [results[one] for one in batch])
    except _Unanswered as pause:
        return pause.request
    except _LostToOthers:
        return End.LOST
    except Retry:
        return End.GAVE_UP
    return End.RETURNED
