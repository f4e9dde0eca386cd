from typing import Any

import pytest
import torch
from torch import nn

from spotgrad.errors import Unsupported
from worker_image.metrics import Meter
from worker_image.task_shape import capture_logs, check_shape, defines


class Plain(nn.Module):
    automatic_optimization = True

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        raise NotImplementedError


class WithOwnLog(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []
        self.log_dict = {"mine": 1}


def test_a_module_with_a_training_step_is_a_task() -> None:
    task = Plain()
    assert check_shape(task, "m:Plain") is task
    assert defines(task, "training_step")
    assert not defines(task, "validation_step")


class Manual(Plain):
    automatic_optimization = False


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        ({}, "task 'm:f' returned a dict, not a torch.nn.Module"),
        (Plain, "returned a type"),
        (nn.Linear(1, 1), r"Linear has no training_step\(batch, idx\)"),
        (Manual(), "automatic_optimization"),
    ],
)
def test_what_is_no_task_is_refused_by_name(task: Any, problem: str) -> None:
    with pytest.raises(Unsupported, match=problem):
        check_shape(task, "m:f")


def test_a_plain_module_may_log_too() -> None:
    task, meter = Plain(), Meter()
    capture_logs(task, meter)
    task.log("a", 2.0)  # type: ignore[operator]  # given to it just now
    task.log_dict({"b": 3.0})  # type: ignore[operator]  # given to it just now
    meter.add(meter.take({}), 1)
    assert {name: each.total for name, each in meter.sums().items()} == {"a": 2, "b": 3}


def test_what_a_task_calls_log_itself_stays() -> None:
    task = WithOwnLog()
    capture_logs(task, Meter())
    assert task.log == []
    assert task.log_dict == {"mine": 1}
