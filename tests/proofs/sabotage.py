"""A bench on which any one write or send can be made to go wrong: cut off, lost, or refused.

Every put, delete and send of the step under test is an *effect*, numbered from 1 in its order.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from spotgrad.errors import ConditionFailed, Retry, StoreUnavailable
from spotgrad.steps.reconcile_job import Watch
from tests.builders import LEASE_SECONDS, Bench
from tests.fakes.faults import Crashed
from tests.fakes.queue import FakeQueue
from tests.fakes.store import Write

Moment = Literal["before", "halfway", "after"]

CONDITIONAL = ("head.json", "spec.json")


@dataclass(frozen=True)
class Damage:
    """What goes wrong, when, and with which of the effects."""

    error: type[BaseException]
    moment: Moment
    number: int


def cuts(effects: Sequence[str]) -> Iterator[Damage]:
    """The process dies: before the first effect, after each one, and within a send of several."""
    yield Damage(Crashed, "before", 1)
    for number, effect in enumerate(effects, 1):
        if effect.startswith("send") and effect != "send 1":
            yield Damage(Crashed, "halfway", number)
        yield Damage(Crashed, "after", number)


def troubles(effects: Sequence[str]) -> Iterator[Damage]:
    """The process lives on, with a call that failed, or that only seems to have failed.

    The last two are for conditional writes: 409, which is as good as 412; and an SDK that repeats
    a PUT whose answer was lost, so that the PUT loses against itself.
    """
    for number, effect in enumerate(effects, 1):
        yield Damage(StoreUnavailable, "before", number)
        yield Damage(StoreUnavailable, "after", number)
        if effect.endswith(CONDITIONAL):
            yield Damage(ConditionFailed, "before", number)
            yield Damage(ConditionFailed, "after", number)


class Saboteur:
    """Numbers the effects, and strikes once."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.struck = False
        self._damage: Damage | None = None

    def begin(self, damage: Damage | None) -> None:
        """Count from here on."""
        self.effects, self.struck, self._damage = [], False, damage

    def start(self, effect: str) -> None:
        self.effects.append(effect)
        self.pass_by("before")

    def pass_by(self, moment: Moment) -> None:
        damage, number = self._damage, len(self.effects)
        if damage is not None and (damage.number, damage.moment) == (number, moment):
            self.struck, self._damage = True, None
            raise damage.error(f"{moment} effect {number}: {self.effects[-1]}")

    def on_write(self, write: Write) -> None:
        if write.moment == "before":
            self.start(f"{write.operation} {write.key}")
        else:
            self.pass_by("after")


class SabotagedQueue(FakeQueue):
    """Its sends are effects; one of several messages may also be cut off halfway."""

    saboteur: Saboteur

    def send(self, bodies: Sequence[str]) -> None:
        self.saboteur.start(f"send {len(bodies)}")
        half = len(bodies) // 2
        if half:
            super().send(bodies[:half])
            self.saboteur.pass_by("halfway")
        super().send(bodies[half:])
        self.saboteur.pass_by("after")


class SabotagedBench(Bench):
    """The small job of ``tests.builders`` in a world that a saboteur has access to."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.saboteur = Saboteur()
        self.queue = SabotagedQueue(self.clock, lease_seconds=LEASE_SECONDS)
        self.queue.saboteur = self.saboteur
        self.store.on_write = self.saboteur.on_write
        self.world = replace(self.world, subtasks=self.queue)
        self.watch = Watch(self.store, self.queue, LEASE_SECONDS)

    def disturbed(self, step: Callable[[], object], damage: Damage | None) -> None:
        """Run a step with the damage, if any; its process may die, its messages may come back."""
        self.saboteur.begin(damage)
        try:
            step()
        except (Crashed, Retry):
            if not self.saboteur.struck:
                raise
            self.world = replace(self.world)  # a new process remembers nothing
        if damage is not None and not self.saboteur.struck:
            raise LookupError(f"{damage} struck nothing: it would prove nothing")
