"""A training subtask between two batches: taken, and put back.

The file is ``spotgrad.protocol.partial``'s. Invariant: training that goes on from a snapshot makes
the same steps with the same numbers as training that was never cut off. What a task keeps outside
of its tensors (plain attributes) is not in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import JsonValue
from torch import nn

from spotgrad.errors import Malformed, Unsupported
from spotgrad.protocol.partial import Partial, Position
from spotgrad.protocol.result import Base
from worker_image.metrics import Meter
from worker_image.optimizers import Optimization
from worker_image.seeds import random_states, restore_random_states
from worker_image.state import Arrays, arrays_of, load, to_numpy, to_torch
from worker_image.tree import join, split

__all__ = ["Moving", "Snapshot"]

MODEL, BUFFER, STATE = "model/", "buffer/", "state/"
"""Tensors of the task's state, its buffers beyond that, and what ``state`` refers to."""


@dataclass(frozen=True)
class Snapshot:
    """Everything that a partial says beyond who wrote it."""

    base: Base
    position: Position
    state: JsonValue
    tensors: Arrays


@dataclass(frozen=True)
class Moving:
    """The parts of a training subtask that move with every batch."""

    task: nn.Module
    optimization: Optimization
    meter: Meter
    generator: torch.Generator

    def take(self, base: Base, position: Position, order: torch.Tensor) -> Snapshot:
        """Return a snapshot; ``order`` is the generator's state when the present pass began.

        Raises:
            Unsupported: something keeps a state that is no plain data.
        """
        state, tensors = split(
            {
                "optimizer": self.optimization.optimizer.state_dict(),
                "schedulers": [_state_of(each.scheduler) for each in self.optimization.schedules],
                "meter": self.meter.state(),
                "order": order,
                "random": random_states(),
            }
        )
        arrays = {
            **_named(MODEL, arrays_of(self.task)),
            **_named(BUFFER, {name: to_numpy(name, it) for name, it in _beyond(self.task).items()}),
            **_named(STATE, tensors),
        }
        return Snapshot(base, position, state, arrays)

    def put_back(self, partial: Partial) -> None:
        """Bring everything to where the partial was taken.

        Raises:
            Malformed: it does not fit this task.
            Exception: whatever the user's optimizer raises at a state that is not its own.
        """
        state = join(partial.metadata.state, _under(STATE, partial.tensors))
        load(self.task, _under(MODEL, partial.tensors))
        _load_buffers(_beyond(self.task), _under(BUFFER, partial.tensors))
        optimizer = self.optimization.optimizer
        optimizer.load_state_dict(state["optimizer"])
        # torch's own mark; without it a scheduler that is stepped first warns of a wrong order.
        vars(optimizer)["_opt_called"] = partial.metadata.position.steps > 0
        schedules = self.optimization.schedules
        for schedule, its_state in zip(schedules, state["schedulers"], strict=True):
            schedule.scheduler.load_state_dict(its_state)
        self.meter.restore(state["meter"])
        self.generator.set_state(state["order"])
        restore_random_states(state["random"])  # last: what is above may have drawn from them


def _state_of(scheduler: Any) -> Any:
    if not hasattr(scheduler, "state_dict"):
        raise Unsupported(f"scheduler {type(scheduler).__name__} has no state_dict")
    return scheduler.state_dict()


def _beyond(task: nn.Module) -> dict[str, torch.Tensor]:
    """Return the buffers that ``state_dict`` leaves out (``persistent=False``)."""
    kept = task.state_dict().keys()
    return {name: buffer for name, buffer in task.named_buffers() if name not in kept}


def _load_buffers(buffers: Mapping[str, torch.Tensor], arrays: Arrays) -> None:
    if odd := sorted(buffers.keys() ^ arrays.keys()):
        raise Malformed(f"buffer {odd[0]!r}: the task and the partial do not both have it")
    with torch.no_grad():
        for name, buffer in buffers.items():
            buffer.copy_(to_torch(arrays[name]))


def _named(prefix: str, arrays: Mapping[str, Any]) -> Arrays:
    return {prefix + name: array for name, array in arrays.items()}


def _under(prefix: str, arrays: Mapping[str, Any]) -> Arrays:
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
