"""From a subtask to its product: gather the inputs, put the task together, let it work.

Knows where things come from and which of the three kinds of work is meant; not messages, leases or
uploads (``loop``).
"""

import torch
from torch import nn

from spotgrad.errors import Malformed
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import SubtaskName
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.result import Base
from spotgrad.protocol.subtask import ModelRef, Subtask
from worker_image.batches import Batch, to_columns
from worker_image.inputs import Inputs, Model
from worker_image.seeds import seed_everything, subtask_seed
from worker_image.standing import open_evaluation
from worker_image.state import load
from worker_image.task_code import TaskCode
from worker_image.training import Product, evaluate, initialize, train
from worker_image.watch import Watch

__all__ = ["Workshop", "base_of"]


def base_of(head: Head, subtask: Subtask) -> Base | None:
    """Return the version that a training subtask begins from: the head's latest."""
    if SubtaskName.parse(subtask.subtask).kind != "train" or head.model is None:
        return None
    return Base(
        version=head.model.version,
        commit=head.model.commit,
        results_merged=head.results_merged,
    )


class Workshop:
    """Everything that stays warm between two subtasks of a worker."""

    def __init__(self, inputs: Inputs, code: TaskCode) -> None:
        self._inputs = inputs
        self._code = code

    def produce(self, head: Head, subtask: Subtask, watch: Watch) -> Product:
        """Do an open subtask.

        Raises:
            Retry: an input could not be had now.
            Exception: anything that the user's code raises, or an input that is unusable.
        """
        name = SubtaskName.parse(subtask.subtask)
        plan = self._inputs.plan(head)
        if name.kind == "initialize":
            return initialize(self._task(plan))
        model = self._inputs.model(head, _wanted(head, subtask))
        split = "train" if name.kind == "train" else _split(plan)
        device = _device(plan)
        data = self._data(plan, split, name.shard or 0, device)
        task = self._task(plan, model).to(device)
        spec, version = plan.spec, model.metadata
        generator = seed_everything(
            subtask_seed(spec.seed, spec.name, subtask.epoch, name.shard or 0, version.version)
        )
        if name.kind == "evaluate":
            return evaluate(task, data, spec.local, version, watch=watch)
        return train(task, data, spec.local, version, generator=generator, watch=watch)

    def close(self) -> None:
        """Take the user's code away again."""
        self._code.close()

    def _task(self, plan: JobPlan, model: Model | None = None) -> nn.Module:
        if plan.code is None:
            self._code.close()
        elif not self._code.holds(plan.code.sha256):
            self._code.install(plan.code.sha256, self._inputs.code(plan.code))
        task = self._code.build(plan.spec)
        if model is not None:
            load(task, model.file.tensors)
        return task

    def _data(self, plan: JobPlan, split: str, shard: int, device: torch.device) -> Batch:
        file = self._inputs.shard(plan.manifest, split, shard)
        columns = to_columns(file.tensors, plan.manifest.columns)
        return tuple(column.to(device) for column in columns)


def _wanted(head: Head, subtask: Subtask) -> ModelRef:
    progress = open_evaluation(head, subtask)
    wanted = head.model if progress is None else progress.model
    if wanted is None:
        raise Malformed(f"{subtask.subtask} of epoch {subtask.epoch}: there is no model version")
    return wanted


def _split(plan: JobPlan) -> str:
    if plan.spec.evaluate is None:
        raise Malformed(f"job {plan.spec.name!r} does not evaluate")
    return plan.spec.evaluate.split


def _device(plan: JobPlan) -> torch.device:
    return torch.device("cuda" if plan.spec.workers.gpu and torch.cuda.is_available() else "cpu")
