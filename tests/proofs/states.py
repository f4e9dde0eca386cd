"""The states of the model check: tuples of small numbers, for there are hundreds of thousands.

Sets of objects and of subtasks are bit masks over ``Numbers``, and a machine is a number that
stands for its batch, its answers and what it has written.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from tests.proofs.machine import Answers, Batch

Thing = TypeVar("Thing", bound=Hashable)

IDLE = 0
"""The number of a machine that is in no call."""


class Machine(NamedTuple):
    """One aggregator in a call: its batch, what it was told, what it has written."""

    batch: Batch
    answers: Answers = ()
    made: int = 0


class State(NamedTuple):
    """Everything that can differ between two moments of any interleaving."""

    head: int
    objects: int
    machines: tuple[int, ...]
    waiting: tuple[int, ...]
    """How many events wait for delivery, per result."""
    sent: int
    """Subtasks of which a message was sent while they were open."""
    crashes: int
    faults: int

    def machine(self, index: int, number: int) -> "State":
        """Return the state with one machine changed."""
        machines = (*self.machines[:index], number, *self.machines[index + 1 :])
        # The constructor is several times as fast as _replace, and every move comes by here.
        return State(self[0], self[1], machines, *self[3:])

    def events(self, batch: Batch, change: int) -> "State":
        """Return the state with so many more events of each result in the batch."""
        waiting = tuple(count + change * (i in batch) for i, count in enumerate(self.waiting))
        return self._replace(waiting=waiting)


@dataclass
class Numbers(Generic[Thing]):
    """Things by number, in order of appearance; a set of them is a bit mask."""

    things: list[Thing] = field(default_factory=list)
    _numbers: dict[Thing, int] = field(default_factory=dict)

    def of(self, thing: Thing) -> int:
        if thing not in self._numbers:
            self._numbers[thing] = len(self.things)
            self.things.append(thing)
        return self._numbers[thing]

    def mask(self, things: Iterable[Thing]) -> int:
        return sum(1 << self.of(thing) for thing in set(things))

    def members(self, mask: int) -> frozenset[Thing]:
        found = set()
        while mask:
            number = mask.bit_length() - 1
            found.add(self.things[number])
            mask ^= 1 << number
        return frozenset(found)
