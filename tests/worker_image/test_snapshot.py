from typing import Any

import pytest
import torch

from spotgrad.errors import Malformed, Unsupported
from spotgrad.protocol.partial import Position
from tests.worker_image.resumable import BASE, Task, written
from worker_image.metrics import Meter
from worker_image.optimizers import Optimization, Schedule
from worker_image.seeds import seed_everything
from worker_image.snapshot import Moving, Snapshot

POSITION = Position(passes=0, batches=1, steps=1)


class Stateless:
    """A scheduler that cannot say where it is."""

    def step(self) -> None: ...


def moving(*schedulers: Any, task: Task | None = None) -> Moving:
    task = task or Task()
    schedules = tuple(Schedule(each, "step") for each in schedulers)
    optimization = Optimization(torch.optim.SGD(task.parameters(), lr=0.1), schedules)
    return Moving(task, optimization, Meter(), seed_everything(1))


def taken(parts: Moving) -> Snapshot:
    return parts.take(BASE, POSITION, parts.generator.get_state())


def test_every_tensor_of_the_task_is_in_it_even_buffers_that_are_not_saved_elsewhere() -> None:
    task = Task()
    names = {name.partition("/")[2] for name in taken(moving(task=task)).tensors}
    assert names >= {*task.state_dict(), "steps_seen"}
    assert "steps_seen" not in task.state_dict()


def test_sums_that_are_no_numbers_come_back_as_they_were() -> None:
    parts = moving()
    parts.meter.add({"loss": float("nan"), "norm": float("inf"), "ok": 0.1}, 3)
    partial = written(taken(parts))
    again = moving()
    again.put_back(partial)
    assert repr(again.meter.state()) == repr(parts.meter.state())


def test_what_keeps_no_plain_state_cannot_be_saved() -> None:
    with pytest.raises(Unsupported, match="scheduler Stateless has no state_dict"):
        taken(moving(Stateless()))
    odd = moving()
    odd.optimization.optimizer.param_groups[0]["hook"] = object()
    with pytest.raises(Unsupported, match="a object cannot be saved"):
        taken(odd)


def test_a_task_with_other_tensors_does_not_take_it() -> None:
    class Larger(Task):
        def __init__(self) -> None:
            super().__init__()
            self.more = torch.nn.Linear(1, 1)

    with pytest.raises(Malformed, match=r"tensor 'more\.bias' is in the task alone"):
        moving(task=Larger()).put_back(written(taken(moving())))
