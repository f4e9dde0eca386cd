"""Training that takes no time: three batches that move four numbers, each a request of its own.

Everything around it is the product's: the loop, the lease, the head check, records, partials. So
is the contract: what a subtask makes of a base version is a pure function (``trained``), however
often it was interrupted on the way.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
import torch

from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import SubtaskName
from spotgrad.protocol.partial import Position
from spotgrad.protocol.result import Base, Evaluated, Initialized, Sum, Trained
from spotgrad.protocol.subtask import Subtask
from tests.builders import ROLES, SAMPLES, Tensors, tensors
from tests.proofs.stage import Fate, Request, Stage
from worker_image.inputs import Inputs
from worker_image.snapshot import Snapshot
from worker_image.training import Product
from worker_image.watch import Watch
from worker_image.workshop import Workshop, _wanted, base_of

BATCHES: Final = 3
ROWS: Final = [torch.tensor([number]) for number in range(BATCHES)]

Name = tuple[int, str]
Curses = dict[Name, list[Fate]]
"""What the next attempts at a subtask come to, whoever makes them: poison."""


def trained(start: Tensors, epoch: int, shard: int, batches: range = range(BATCHES)) -> Tensors:
    """Return what these batches of a shard make of a model."""
    made = dict(start)
    for number in batches:
        target = np.float32(1 + 0.25 * epoch + 0.5 * shard + 0.125 * number)
        made["weight"] = made["weight"] + np.float32(0.5) * (target - made["weight"])
        made["counter"] = made["counter"] + np.int64(1)
    return made


class ToyWorkshop(Workshop):
    """Stands in for user code and torch."""

    def __init__(self, stage: Stage, inputs: Inputs, curses: Curses) -> None:
        self._stage = stage
        self._inputs = inputs
        self._curses = curses

    def produce(
        self,
        head: Head,
        subtask: Subtask,
        watch: Watch,
        rebase: Callable[[Base | None], None] = lambda _: None,
    ) -> Product:
        name = SubtaskName.parse(subtask.subtask)
        if name.kind == "initialize":
            made = self._batch(subtask, 0, tensors())
            watch.left = 0
            return Product(Initialized(roles=ROLES), made)
        if name.kind == "evaluate":
            return self._evaluated(head, subtask, watch)
        return self._trained(head, subtask, watch, rebase)

    def _evaluated(self, head: Head, subtask: Subtask, watch: Watch) -> Product:
        model = self._inputs.model(head, _wanted(head, subtask))
        for number, _ in watch.over(ROWS[:1]):
            self._batch(subtask, number, {})
        total = float(model.file.tensors["weight"].sum())
        said = model.metadata
        sums = {"weight": Sum(total=total, count=SAMPLES)}
        return Product(Evaluated(version=said.version, commit=said.commit, sums=sums), {})

    def _trained(
        self,
        head: Head,
        subtask: Subtask,
        watch: Watch,
        rebase: Callable[[Base | None], None],
    ) -> Product:
        partial = self._inputs.partial(head, subtask)
        if partial is None:
            base, done = base_of(head, subtask), 0
            made = dict(self._inputs.model(head, _wanted(head, subtask)).file.tensors)
        else:
            base, done = partial.metadata.base, partial.metadata.position.batches
            made = dict(partial.tensors)
            rebase(base)
        assert base is not None
        known = base

        def snapshot() -> Snapshot:
            return Snapshot(known, Position(passes=0, batches=done, steps=done), {}, made)

        watch.snapshot, watch.left = snapshot, BATCHES - done
        shard = SubtaskName.parse(subtask.subtask).shard or 0
        for number, _ in watch.over(ROWS, passed=done):
            made = trained(made, subtask.epoch, shard, range(number, number + 1))
            made = self._batch(subtask, number, made)
            done = number + 1
        return Product(Trained(base=base, samples=SAMPLES, roles=ROLES), made)

    def _batch(self, subtask: Subtask, number: int, made: Tensors) -> Tensors:
        """Stand still within a batch, and let come what may."""
        name = subtask.epoch, subtask.subtask
        fate = self._stage.fate_of(Request("train", f"{subtask.subtask} {number}"))
        if fate is Fate.DONE and self._curses.get(name):
            fate = self._curses[name].pop()
        if fate is Fate.RAISES:
            raise ValueError(f"batch {number}: boom")
        if fate is not Fate.NAN or not made:
            return made
        return made | {"weight": np.full((2, 2), np.nan, np.float32)}
