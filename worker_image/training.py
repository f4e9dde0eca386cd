"""The three things that a worker does with a task: initialize, train on a shard, evaluate a shard.

Torch and the user's code; no bucket, no queue, no clock. Invariant: the outcome depends on the
arguments and on torch's number of threads alone, never on what the process did before.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from spotgrad.errors import Unsupported
from spotgrad.protocol.job import Local
from spotgrad.protocol.result import Base, Evaluated, Initialized, ModelMetadata, Trained
from worker_image.batches import Batch, in_order, shuffled
from worker_image.metrics import Meter, values_of
from worker_image.optimizers import make_optimization
from worker_image.state import Arrays, arrays_of, roles_of
from worker_image.task_shape import capture_logs, defines
from worker_image.watch import Watch

__all__ = ["Product", "evaluate", "initialize", "train"]


Step = Callable[[Batch, int], Any]


@dataclass(frozen=True)
class Product:
    """What is uploaded: an outcome, and tensors if it has any."""

    outcome: Initialized | Trained | Evaluated
    tensors: Arrays


def initialize(task: nn.Module) -> Product:
    """Return the parameters that the task was built with."""
    return Product(Initialized(roles=roles_of(task)), arrays_of(task))


def train(
    task: nn.Module,
    data: Batch,
    local: Local,
    start: ModelMetadata,
    *,
    generator: torch.Generator,
    watch: Watch,
) -> Product:
    """Train ``task``, which holds version ``start``, on one shard; ``data`` has one row a sample.

    Raises:
        Unsupported: a step or ``configure_optimizers`` returned something that is not understood.
    """
    meter = Meter()
    capture_logs(task, meter)
    task.train()
    optimization = make_optimization(task, local.optimizer)
    step = _within_precision(_method(task, "training_step"), local, data)
    steps = 0
    for done in range(1, local.passes + 1):
        for index, batch in watch.over(shuffled(data, local.batch_size, generator)):
            loss = _loss_of(step(batch, index))
            meter.close_batch({} if loss is None else {"loss": float(loss.detach())}, len(batch[0]))
            if loss is None:  # Lightning: the batch is passed over
                continue
            optimization.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            optimization.optimizer.step()
            steps += 1
            optimization.advance("step", steps)
        optimization.advance("epoch", done)
    base = Base(version=start.version, commit=start.commit, results_merged=start.results_merged)
    roles, sums = roles_of(task), meter.sums()
    outcome = Trained(base=base, samples=len(data[0]), roles=roles, sums=sums)
    return Product(outcome, arrays_of(task))


def evaluate(
    task: nn.Module, data: Batch, local: Local, version: ModelMetadata, *, watch: Watch
) -> Product:
    """Sum up what ``validation_step`` says about one shard; without one, the training loss.

    Raises:
        Unsupported: a step says nothing, or something that is not understood.
    """
    meter = Meter()
    capture_logs(task, meter)
    task.eval()
    step = _within_precision(_evaluation_step(task), local, data)
    with torch.no_grad():
        for index, batch in watch.over(in_order(data, local.batch_size)):
            meter.close_batch(values_of(step(batch, index)), len(batch[0]))
    sums = meter.sums()
    if not sums:
        raise Unsupported("validation_step neither returned nor logged a finite metric")
    return Product(Evaluated(version=version.version, commit=version.commit, sums=sums), {})


def _evaluation_step(task: nn.Module) -> Step:
    if defines(task, "validation_step"):
        return _method(task, "validation_step")
    training_step = _method(task, "training_step")
    return lambda batch, index: _loss_of(training_step(batch, index))


def _method(task: nn.Module, name: str) -> Step:
    method: Step = getattr(task, name)
    return method


def _within_precision(step: Step, local: Local, data: Batch) -> Step:
    """Return ``step`` under autocast when the job asks for bf16; parameters stay as they are."""
    if local.precision == "fp32":
        return step
    autocast: Step = torch.autocast(data[0].device.type, dtype=torch.bfloat16)(step)
    return autocast


def _loss_of(output: Any) -> torch.Tensor | None:
    loss = output.get("loss") if isinstance(output, Mapping) else output
    if output is not None and not isinstance(loss, torch.Tensor):
        raise Unsupported(
            f"training_step returned a {type(output).__name__} without a loss tensor: "
            "return the loss, or a mapping with it under 'loss'"
        )
    return loss
