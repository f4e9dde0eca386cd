"""The three things that a worker does with a task: initialize, train on a shard, evaluate a shard.

Torch and the user's code; no bucket, no queue, no clock. Invariant: the outcome depends on the
arguments and on torch's number of threads alone, never on what the process did before.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from spotgrad.errors import Unsupported
from spotgrad.protocol.job import Local
from spotgrad.protocol.partial import Partial, Position
from spotgrad.protocol.result import Base, Evaluated, Initialized, ModelMetadata, Sum, Trained
from worker_image.batches import Batch, Rows, in_order, shuffled, take
from worker_image.metrics import Meter, values_of
from worker_image.micro import MicroBatches
from worker_image.optimizers import make_optimization
from worker_image.snapshot import Moving, Snapshot
from worker_image.state import Arrays, arrays_of, roles_of
from worker_image.task_shape import capture_logs, defines
from worker_image.watch import Watch

__all__ = ["Product", "Training", "evaluate", "initialize", "train"]


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
    base = Base(version=start.version, commit=start.commit, results_merged=start.results_merged)
    return Training(task, data, local, base, generator=generator, watch=watch).run()


class Training:
    """One training subtask; between two batches it can be taken up by another process."""

    def __init__(
        self,
        task: nn.Module,
        data: Batch,
        local: Local,
        base: Base,
        *,
        generator: torch.Generator,
        watch: Watch,
    ) -> None:
        self._meter = Meter()
        capture_logs(task, self._meter)
        self._optimization = make_optimization(task, local.optimizer)
        self._moving = Moving(task, self._optimization, self._meter, generator)
        self._task = task
        self._data = data
        self._local = local
        self._base = base
        self._watch = watch
        self._step = _within_precision(_method(task, "training_step"), local, data)
        self._micro = MicroBatches()
        self._passes = self._batches = self._steps = 0
        self._order = generator.get_state()

    def resume(self, partial: Partial) -> None:
        """Go on where another attempt was cut off; if this raises, all has to be made anew.

        Raises:
            Exception: the partial does not fit; user code may raise anything.
        """
        self._moving.put_back(partial)
        position = partial.metadata.position
        self._base = partial.metadata.base
        self._passes, self._batches, self._steps = (*position.order, position.steps)
        self._order = self._moving.generator.get_state()

    def run(self) -> Product:
        """Train to the end of the last pass.

        Raises:
            Unsupported: as ``train``.
        """
        self._task.train()
        self._watch.snapshot = self._snapshot
        while self._passes < self._local.passes:
            self._pass()
        roles, sums = roles_of(self._task), self._meter.sums()
        outcome = Trained(base=self._base, samples=len(self._data[0]), roles=roles, sums=sums)
        return Product(outcome, arrays_of(self._task))

    def judged(self, product: Product, held_out: Batch) -> Product:
        """Return the product with the trained model's mean training loss on ``held_out``.

        One that is not finite is left out: the gate refuses a result that should have one.
        """
        self._task.eval()
        total, count = 0.0, 0
        with torch.no_grad():
            for rows in in_order(len(held_out[0]), self._local.batch_size):
                loss = _loss_of(self._step(take(held_out, rows), 0))
                self._meter.take({})
                if loss is not None:
                    total, count = total + float(loss) * len(rows), count + len(rows)
        if not count or not math.isfinite(total) or not isinstance(product.outcome, Trained):
            return product
        said = product.outcome.model_copy(update={"held_out": Sum(total=total, count=count)})
        return Product(said, product.tensors)

    def _snapshot(self) -> Snapshot:
        position = Position(passes=self._passes, batches=self._batches, steps=self._steps)
        return self._moving.take(self._base, position, self._order)

    def _pass(self) -> None:
        size, generator = self._local.batch_size, self._moving.generator
        batches = shuffled(len(self._data[0]), size, generator)
        passes_left = self._local.passes - self._passes
        self._watch.left = passes_left * len(batches) - self._batches
        for index, rows in self._watch.over(batches, passed=self._batches):
            self._batch(index, rows)
            self._batches = index + 1
        self._passes, self._batches = self._passes + 1, 0
        self._optimization.advance("epoch", self._passes)
        self._order = generator.get_state()

    def _batch(self, index: int, rows: Rows) -> None:
        def work(part: Rows) -> tuple[bool, dict[str, float]]:
            loss = _loss_of(self._step(take(self._data, part), index))
            values = self._meter.take({} if loss is None else {"loss": float(loss.detach())})
            if loss is not None:
                # The loss is a mean: each part counts by its share of the batch.
                scaled = loss if len(part) == len(rows) else loss * (len(part) / len(rows))
                scaled.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            return loss is not None, values

        done = self._micro.work(rows, work, self._forget)
        for part, (_, values) in done:
            self._meter.add(values, len(part))
        if any(trained for _, (trained, _) in done):  # Lightning: without a loss, no step
            self._optimization.optimizer.step()
            self._steps += 1
            self._optimization.advance("step", self._steps)

    def _forget(self) -> None:
        self._optimization.optimizer.zero_grad()
        self._meter.take({})


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
    micro = MicroBatches()
    batches = in_order(len(data[0]), local.batch_size)
    watch.left = len(batches)
    with torch.no_grad():
        for index, rows in watch.over(batches):

            def judge(part: Rows, index: int = index) -> dict[str, float]:
                return meter.take(values_of(step(take(data, part), index)))

            for part, values in micro.work(rows, judge, lambda: meter.take({})):
                meter.add(values, len(part))
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
