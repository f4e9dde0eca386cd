"""The optimizer of one subtask: the task's own (``configure_optimizers``) or the job file's.

Always fresh: a worker keeps no optimizer state. All forms that Lightning takes are read here, but
one optimizer per task and automatic optimization only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from spotgrad.errors import Unsupported
from spotgrad.protocol.job import Optimizer as OptimizerSpec
from spotgrad.protocol.job import Sgd
from worker_image.task_shape import defines

__all__ = ["Optimization", "make_optimization"]


@dataclass(frozen=True)
class Schedule:
    """One learning-rate scheduler, stepped after every ``frequency``-th step or pass."""

    scheduler: Any
    interval: Literal["step", "epoch"]
    frequency: int = 1


@dataclass(frozen=True)
class Optimization:
    """An optimizer and its schedulers."""

    optimizer: torch.optim.Optimizer
    schedules: tuple[Schedule, ...] = ()

    def advance(self, interval: Literal["step", "epoch"], done: int) -> None:
        """Step the schedulers that are due after ``done`` steps or passes."""
        for schedule in self.schedules:
            if schedule.interval == interval and done % schedule.frequency == 0:
                schedule.scheduler.step()


def make_optimization(task: nn.Module, spec: OptimizerSpec) -> Optimization:
    """Return a fresh optimizer over the task's trainable parameters.

    Raises:
        Unsupported: several optimizers, a scheduler that watches a metric, or an unknown form.
    """
    if defines(task, "configure_optimizers"):
        configured = task.configure_optimizers()  # type: ignore[operator]  # a user's method
        if configured is not None:
            return _read(configured)
    parameters = [parameter for parameter in task.parameters() if parameter.requires_grad]
    return Optimization(_from_spec(parameters, spec))


def _from_spec(parameters: list[nn.Parameter], spec: OptimizerSpec) -> torch.optim.Optimizer:
    options = spec.model_dump(exclude={"name"})
    if isinstance(spec, Sgd):
        return torch.optim.SGD(parameters, **options)
    kind = torch.optim.AdamW if spec.name == "adamw" else torch.optim.Adam
    return kind(parameters, **options)


def _read(configured: Any) -> Optimization:
    """Read what ``configure_optimizers`` returned.

    https://lightning.ai/docs/pytorch/stable/common/lightning_module.html#configure-optimizers
    """
    match configured:
        case torch.optim.Optimizer():
            return Optimization(configured)
        case {"optimizer": torch.optim.Optimizer() as optimizer}:
            schedule = configured.get("lr_scheduler")
            return Optimization(optimizer, () if schedule is None else (_schedule(schedule),))
        case [[torch.optim.Optimizer() as optimizer], schedules] if _is_sequence(schedules):
            return Optimization(optimizer, tuple(map(_schedule, schedules)))
        case [single]:
            return _read(single)
    raise Unsupported(
        f"configure_optimizers returned {_outline(configured)}: return one optimizer, "
        "with its schedulers if there are any"
    )


def _schedule(configured: Any) -> Schedule:
    options: Mapping[str, Any] = configured if isinstance(configured, Mapping) else {}
    scheduler = options.get("scheduler") if options else configured
    interval, frequency = options.get("interval", "epoch"), options.get("frequency", 1)
    if isinstance(scheduler, ReduceLROnPlateau):
        raise Unsupported("ReduceLROnPlateau watches a metric that no single worker can know")
    if not hasattr(scheduler, "step") or interval not in ("step", "epoch") or frequency < 1:
        raise Unsupported(f"lr_scheduler {_outline(configured)}: not a form that is understood")
    return Schedule(scheduler, interval, frequency)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _outline(value: Any) -> str:
    return " ".join(repr(value).split())[:120]
