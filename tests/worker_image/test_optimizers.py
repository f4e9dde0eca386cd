from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau, StepLR

from spotgrad.errors import Unsupported
from spotgrad.protocol.job import Adam as AdamSpec
from spotgrad.protocol.job import Sgd as SgdSpec
from worker_image.optimizers import Optimization, make_optimization

SPEC = SgdSpec(name="sgd", lr=0.5, momentum=0.9, weight_decay=0.01, nesterov=True)


class Task(nn.Module):
    """A task whose ``configure_optimizers`` answers what a test wants it to."""

    def __init__(self, configured: Callable[[Optimizer, LRScheduler], Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.frozen = nn.Parameter(torch.ones(1), requires_grad=False)
        self._configured = configured

    def configure_optimizers(self) -> Any:
        optimizer = SGD([self.weight], lr=1.0)
        return self._configured(optimizer, StepLR(optimizer, step_size=1, gamma=0.1))


def rate(optimization: Optimization) -> float:
    value: float = optimization.optimizer.param_groups[0]["lr"]
    return value


def step(optimization: Optimization) -> None:
    optimization.optimizer.step()


@pytest.mark.parametrize(
    ("spec", "kind", "expected"),
    [
        (SPEC, SGD, {"lr": 0.5, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
        (AdamSpec(name="adam", lr=0.1, betas=(0.8, 0.9)), Adam, {"lr": 0.1, "betas": (0.8, 0.9)}),
        (AdamSpec(name="adamw", lr=0.1, eps=1e-6), AdamW, {"lr": 0.1, "eps": 1e-6}),
    ],
)
def test_the_job_files_optimizer(
    spec: Any, kind: type[Optimizer], expected: dict[str, Any]
) -> None:
    module = nn.Linear(1, 1)
    module.bias.requires_grad = False
    optimization = make_optimization(module, spec)
    assert type(optimization.optimizer) is kind
    (group,) = optimization.optimizer.param_groups
    assert {name: group[name] for name in expected} == expected
    assert group["params"] == [module.weight]


def test_a_task_that_configures_nothing_gets_the_job_files_optimizer() -> None:
    optimization = make_optimization(Task(lambda _optimizer, _scheduler: None), SPEC)
    assert rate(optimization) == 0.5
    assert len(optimization.optimizer.param_groups[0]["params"]) == 1


@pytest.mark.parametrize(
    "configured",
    [
        lambda optimizer, _: optimizer,
        lambda optimizer, _: [optimizer],
        lambda optimizer, _: (optimizer,),
        lambda optimizer, _: {"optimizer": optimizer},
        lambda optimizer, _: {"optimizer": optimizer, "lr_scheduler": None},
        lambda optimizer, _: ([optimizer], []),
    ],
)
def test_forms_without_a_scheduler(configured: Callable[..., Any]) -> None:
    optimization = make_optimization(Task(configured), SPEC)
    step(optimization)
    optimization.advance("epoch", 1)
    optimization.advance("step", 1)
    assert rate(optimization) == 1.0


@pytest.mark.parametrize(
    "configured",
    [
        lambda optimizer, scheduler: ([optimizer], [scheduler]),
        lambda optimizer, scheduler: ([optimizer], [{"scheduler": scheduler}]),
        lambda optimizer, scheduler: {"optimizer": optimizer, "lr_scheduler": scheduler},
        lambda optimizer, scheduler: (
            {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "name": "lr"}},
        ),
    ],
)
def test_a_scheduler_steps_after_each_pass(configured: Callable[..., Any]) -> None:
    optimization = make_optimization(Task(configured), SPEC)
    step(optimization)
    optimization.advance("step", 1)
    assert rate(optimization) == 1.0
    optimization.advance("epoch", 1)
    assert rate(optimization) == pytest.approx(0.1)


def test_a_scheduler_may_step_after_every_nth_batch() -> None:
    options = {"interval": "step", "frequency": 2}
    task = Task(lambda o, s: {"optimizer": o, "lr_scheduler": {"scheduler": s, **options}})
    optimization = make_optimization(task, SPEC)
    step(optimization)
    rates = []
    for done in range(1, 5):
        optimization.advance("step", done)
        rates.append(rate(optimization))
    assert rates == pytest.approx([1.0, 0.1, 0.1, 0.01])


@pytest.mark.parametrize(
    ("configured", "problem"),
    [
        (lambda o, _: [o, o], "return one optimizer"),
        (lambda o, s: ([o, o], [s]), "return one optimizer"),
        (lambda _o, _s: "sgd", "returned 'sgd': return one optimizer"),
        (lambda _o, _s: {"optimizer": "sgd"}, "return one optimizer"),
        (lambda _o, s: s, "return one optimizer"),
        (lambda o, _: ([o], "abc"), "return one optimizer"),
        (lambda o, _: {"optimizer": o, "lr_scheduler": 0.1}, "not a form"),
        (lambda o, s: ([o], [{"scheduler": s, "interval": "batch"}]), "not a form"),
        (lambda o, s: ([o], [{"scheduler": s, "frequency": 0}]), "not a form"),
        (lambda o, _: ([o], [ReduceLROnPlateau(o)]), "ReduceLROnPlateau"),
    ],
)
def test_forms_that_are_refused(configured: Callable[..., Any], problem: str) -> None:
    with pytest.raises(Unsupported, match=problem) as refusal:
        make_optimization(Task(configured), SPEC)
    assert "\n" not in str(refusal.value)
