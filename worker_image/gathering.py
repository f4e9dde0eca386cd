"""Gathering a gradient: one pass over a shard, or as much of it as its time slice allows.

The model stays as it is, and so do a task's ``configure_optimizers`` and learning-rate schedule:
the one optimizer is the job file's, at the aggregator. Invariant: what comes out is the mean over
all samples that were seen, however they were batched, and however often it was cut off.
"""

import logging
from typing import Any

import torch
from torch import nn

from spotgrad.errors import Unsupported
from spotgrad.protocol.codecs import Codec
from spotgrad.protocol.gradient_codec import encode
from spotgrad.protocol.job import Optimizer as OptimizerSpec
from spotgrad.protocol.result import Trained
from worker_image.batches import Rows
from worker_image.optimizers import Optimization
from worker_image.state import arrays_of, roles_of, to_numpy
from worker_image.task_shape import defines
from worker_image.training import Product, Training

__all__ = ["Gathering", "packed"]

log = logging.getLogger(__name__)


class GradientSum(torch.optim.Optimizer):
    """Adds up gradients, each by the samples it is the mean of; moves no parameter.

    An optimizer in form, so that a cut-off subtask carries it along like any other.
    """

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        super().__init__(parameters, {"samples": 0})

    @torch.no_grad()
    def add(self, samples: int) -> None:
        """Take the gradients at hand, which are means over ``samples``."""
        for group in self.param_groups:
            group["samples"] += samples
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.total(parameter).add_(parameter.grad, alpha=samples)

    def total(self, parameter: nn.Parameter) -> torch.Tensor:
        """Return the sum of a parameter's gradients over all samples, in its own dtype."""
        state: dict[str, torch.Tensor] = self.state[parameter]
        if not state:
            state["sum"] = torch.zeros_like(parameter)
        return state["sum"]

    @property
    def samples(self) -> int:
        """Return how many samples were seen."""
        return int(self.param_groups[0]["samples"])


class Gathering(Training):
    """One contribution to a large batch; between two batches another process can go on with it."""

    def _make_optimization(self, task: nn.Module, spec: OptimizerSpec) -> Optimization:
        del spec
        if defines(task, "configure_optimizers"):
            log.info("configure_optimizers is not used: the job's optimizer is merge.optimizer")
        self._sum = GradientSum([one for one in task.parameters() if one.requires_grad])
        return Optimization(self._sum)

    def _take_step(self, rows: Rows) -> None:
        self._sum.add(len(rows))

    def _product(self) -> Product:
        roles, samples = roles_of(self._task), self._sum.samples
        if not samples:
            raise Unsupported("training_step returned no loss for any batch: there is no gradient")
        arrays: dict[str, Any] = {
            name: array for name, array in arrays_of(self._task).items() if roles[name] == "buffer"
        }
        for name, parameter in self._task.named_parameters(remove_duplicate=False):
            if roles.get(name) in ("parameter", "alias"):
                arrays[name] = to_numpy(name, self._sum.total(parameter).float() / samples)
        outcome = Trained(
            base=self._base, samples=samples, gradient="fp32", roles=roles, sums=self._meter.sums()
        )
        return Product(outcome, arrays)


def packed(product: Product, codec: Codec) -> Product:
    """Return the product with its gradient encoded for the way to the aggregator."""
    outcome = product.outcome
    if not isinstance(outcome, Trained) or outcome.gradient is None:
        return product
    buffers = {
        name: one for name, one in product.tensors.items() if outcome.roles[name] == "buffer"
    }
    gradients = {name: one for name, one in product.tensors.items() if name not in buffers}
    said = outcome.model_copy(update={"gradient": codec})
    return Product(said, encode(gradients, codec, buffers))
