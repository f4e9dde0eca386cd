"""The optimizer of large-batch mode in a job file: one section per optimizer, and its schedule.

Not the arithmetic (``spotgrad.merging.optimizers``), and not ``local.optimizer``, with which a
worker trains on its own. Steps are optimizer steps, counted from 1; each is one version.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from spotgrad.protocol.scalars import Count, Number
from spotgrad.protocol.wire import Part

Beta = Annotated[Number, Field(ge=0, lt=1)]


class RateSchedule(Part):
    """How the learning rate goes from step to step: it warms up, and then it keeps or falls."""

    shape: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: Count = Field(default=0, ge=0)
    """The step at which the rate is first ``lr``; before it grows evenly from ``warmup_from``."""
    warmup_from: Number = Field(default=0.0, ge=0)
    total_steps: Count | None = Field(default=None, ge=1)
    """The step from which on the rate is ``floor``."""
    floor: Number = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _an_end_where_there_is_one(self) -> Self:
        if self.shape == "constant":
            if self.total_steps is not None or self.floor:
                raise ValueError('shape "constant" has no end: leave out total_steps and floor')
        elif self.total_steps is None:
            raise ValueError(f'shape "{self.shape}" needs total_steps: where it ends')
        elif self.total_steps <= self.warmup_steps:
            raise ValueError(
                f"total_steps: {self.total_steps} must be above warmup_steps: {self.warmup_steps}"
            )
        return self

    @model_validator(mode="after")
    def _a_beginning_where_there_is_one(self) -> Self:
        if self.warmup_from and not self.warmup_steps:
            raise ValueError(f"warmup_from: {self.warmup_from:g} needs warmup_steps above 0")
        return self


class Step(Part):
    """What every optimizer lets one choose."""

    lr: Number = Field(gt=0)
    """The highest learning rate of the schedule."""
    schedule: RateSchedule = RateSchedule()
    max_grad_norm: Number | None = Field(default=None, gt=0)
    """The mean gradient of the whole model is scaled down to this length; left out: never."""
    weight_decay: Number = Field(default=0.0, ge=0)
    decay_vectors: bool = True
    """Whether tensors of one dimension (biases, scales of norms) decay as well."""

    @model_validator(mode="after")
    def _lr_is_the_highest(self) -> Self:
        for name in ("floor", "warmup_from"):
            rate = getattr(self.schedule, name)
            if rate > self.lr:
                raise ValueError(f"schedule.{name}: {rate:g} is above lr: {self.lr:g}")
        return self


class SgdStep(Step):
    """``torch.optim.SGD`` without dampening."""

    name: Literal["sgd"]
    momentum: Beta = 0.0
    nesterov: bool = False

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> Self:
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov needs a momentum above 0")
        return self


class AdamWStep(Step):
    """``torch.optim.AdamW``, with its defaults."""

    name: Literal["adamw"]
    lr: Number = Field(default=1e-3, gt=0)
    weight_decay: Number = Field(default=0.01, ge=0)
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    eps: Number = Field(default=1e-8, gt=0)


class LambStep(Step):
    """LAMB (You et al., 2019), with the values of DeDLOC's ALBERT runs (Diskin et al., 2021)."""

    name: Literal["lamb"]
    lr: Number = Field(default=0.00176, gt=0)
    max_grad_norm: Number | None = Field(default=1.0, gt=0)
    weight_decay: Number = Field(default=0.01, ge=0)
    decay_vectors: bool = False
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    eps: Number = Field(default=1e-6, gt=0)
    clamp: Number = Field(default=10_000.0, gt=0)
    """A tensor's length counts no more than this in its trust ratio."""
    bias_correction: bool = True


AnyStep = SgdStep | AdamWStep | LambStep
OptimizerStep = Annotated[AnyStep, Field(discriminator="name")]
