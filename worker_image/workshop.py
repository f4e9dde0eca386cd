"""From a subtask to its product: gather the inputs, put the task together, let it work.

Knows where things come from and which of the three kinds of work is meant; not messages, leases or
uploads (``loop``).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from spotgrad.errors import Malformed
from spotgrad.planning.large_batch import is_too_late
from spotgrad.planning.standing import check_of, progress_of
from spotgrad.protocol.head import EpochProgress, Head, WorkItem
from spotgrad.protocol.keys import SubtaskName
from spotgrad.protocol.merge import DeDLOC
from spotgrad.protocol.plan import CodeRef, JobPlan
from spotgrad.protocol.result import Base, ModelMetadata
from spotgrad.protocol.scalars import lasts
from spotgrad.protocol.subtask import ModelRef, Subtask
from worker_image.batches import Batch, to_columns
from worker_image.cache import is_disk_full
from worker_image.exit_codes import BadDisk
from worker_image.gathering import Gathering, packed
from worker_image.inputs import Inputs, Model, key_of
from worker_image.seeds import seed_everything, subtask_seed
from worker_image.standing import open_evaluation
from worker_image.state import load
from worker_image.task_code import TaskCode
from worker_image.training import Product, Training, evaluate, initialize
from worker_image.watch import Watch

__all__ = ["Workshop", "base_of"]

log = logging.getLogger(__name__)


def base_of(head: Head, subtask: Subtask) -> Base | None:
    """Return the version that a training subtask begins from: its epoch's, or the head's latest.

    Its count of results is the head's, which may be ahead of the version's own.
    """
    if SubtaskName.parse(subtask.subtask).kind != "train" or head.model is None:
        return None
    model = _start_of(head, subtask) or head.model
    return Base(version=model.version, commit=model.commit, results_merged=head.results_merged)


def _start_of(head: Head, subtask: Subtask) -> ModelRef | None:
    """Return the version that this epoch's subtasks begin from, if the job fixes one."""
    item = WorkItem(epoch=subtask.epoch, subtask=subtask.subtask)
    check = check_of(head, item)
    if check is not None:
        return check.model  # only what began from the same version can be compared
    progress = progress_of(head, item)
    return progress.start if isinstance(progress, EpochProgress) else None


@dataclass(frozen=True)
class _Work:
    """One subtask with a shard, and where it is done."""

    head: Head
    subtask: Subtask
    plan: JobPlan
    shard: int
    watch: Watch
    device: torch.device

    def seed(self, version: int) -> int:
        spec = self.plan.spec
        return subtask_seed(spec.seed, spec.name, self.subtask.epoch, self.shard, version)


class Workshop:
    """Everything that stays warm between two subtasks of a worker."""

    def __init__(self, inputs: Inputs, code: TaskCode) -> None:
        self._inputs = inputs
        self._code = code

    def produce(
        self,
        head: Head,
        subtask: Subtask,
        watch: Watch,
        rebase: Callable[[Base | None], None] = lambda _: None,
    ) -> Product:
        """Do an open subtask; ``rebase`` is told when it goes on from another version.

        Raises:
            Retry: an input could not be had now.
            BadDisk: this machine's disk is full.
            Exception: anything that the user's code raises, or an input that is unusable.
        """
        name = SubtaskName.parse(subtask.subtask)
        plan = self._inputs.plan(head)
        if name.kind == "initialize":
            product = initialize(self._task(plan))
            watch.left = 0
            return product
        split = "train" if name.kind == "train" else _split(plan)
        work = _Work(head, subtask, plan, name.shard or 0, watch, _device(plan))
        watch.shard = key_of(plan.manifest, split, work.shard)
        data = self._data(plan, split, work.shard, work.device)
        if name.kind == "evaluate":
            version, task, _ = self._ready(work)
            return evaluate(task, data, plan.spec.local, version, watch=watch)
        training = self._resumed(work, data, rebase) or self._anew(work, data, rebase)
        product = training.run()
        if plan.spec.admission.held_out:
            product = self._judged(work, training, product)
        merge = plan.spec.merge
        return packed(product, merge.compression) if isinstance(merge, DeDLOC) else product

    def _judged(self, work: "_Work", training: Training, product: Product) -> Product:
        """Return the product with its loss on the samples that the job holds out for admission."""
        most = work.plan.spec.admission.held_out
        data = self._data(work.plan, _split(work.plan), 0, work.device)
        return training.judged(product, tuple(column[:most] for column in data))

    def close(self) -> None:
        """Take the user's code away again."""
        self._code.close()

    def _ready(self, work: "_Work") -> tuple[ModelMetadata, nn.Module, torch.Generator]:
        """Return the version to work on, a task that holds it, and what the subtask draws from."""
        model = self._inputs.model(work.head, _wanted(work.head, work.subtask))
        task = self._task(work.plan, model).to(work.device)
        return model.metadata, task, seed_everything(work.seed(model.metadata.version))

    def _anew(self, work: "_Work", data: Batch, rebase: Callable[[Base | None], None]) -> Training:
        version, task, generator = self._ready(work)
        base = Base(
            version=version.version, commit=version.commit, results_merged=version.results_merged
        )
        if base != base_of(work.head, work.subtask):
            rebase(base)
        return self._training(work, task, data, base, generator)

    def _training(
        self, work: "_Work", task: nn.Module, data: Batch, base: Base, generator: torch.Generator
    ) -> Training:
        local, watch = work.plan.spec.local, work.watch
        if not isinstance(work.plan.spec.merge, DeDLOC):
            return Training(task, data, local, base, generator=generator, watch=watch)
        if local.time_slice is not None:
            slice_seconds = lasts(local.time_slice).total_seconds()
            watch.enough = lambda: watch.elapsed_seconds() >= slice_seconds
        return Gathering(task, data, local, base, generator=generator, watch=watch)

    def _resumed(
        self, work: "_Work", data: Batch, rebase: Callable[[Base | None], None]
    ) -> Training | None:
        """Return training that goes on where an interrupted attempt was cut off, if one was."""
        item = WorkItem(epoch=work.subtask.epoch, subtask=work.subtask.subtask)
        if check_of(work.head, item) is not None:
            return None  # an opinion of one's own does not go on from another's work
        partial = self._inputs.partial(work.head, work.subtask)
        if partial is None:
            return None
        base = partial.metadata.base
        if is_too_late(work.head, work.plan, base.version):
            return None
        rebase(base)
        task = self._task(work.plan).to(work.device)
        generator = seed_everything(work.seed(base.version))
        training = self._training(work, task, data, base, generator)
        try:
            training.resume(partial)
        except Exception as error:  # noqa: BLE001 - user code is asked to take its state back
            log.warning("partial %s does not fit: %r", partial.metadata.attempt, error)
            rebase(base_of(work.head, work.subtask))
            return None
        log.info(
            "resumed at %s from attempt %s", partial.metadata.position, partial.metadata.attempt
        )
        return training

    def _task(self, plan: JobPlan, model: Model | None = None) -> nn.Module:
        if plan.code is None:
            self._code.close()
        elif not self._code.holds(plan.code.sha256):
            self._install(plan.code)
        task = self._code.build(plan.spec)
        if model is not None:
            load(task, model.file.tensors)
        return task

    def _install(self, ref: CodeRef) -> None:
        try:
            self._code.install(ref.sha256, self._inputs.code(ref))
        except OSError as error:
            if is_disk_full(error):
                raise BadDisk(f"code bundle {ref.key}: {error}: use another machine") from error
            raise

    def _data(self, plan: JobPlan, split: str, shard: int, device: torch.device) -> Batch:
        file = self._inputs.shard(plan.manifest, split, shard)
        columns = to_columns(file.tensors, plan.manifest.columns)
        return tuple(column.to(device) for column in columns)


def _wanted(head: Head, subtask: Subtask) -> ModelRef:
    progress = open_evaluation(head, subtask)
    started = _start_of(head, subtask) or head.model
    wanted = started if progress is None else progress.model
    if wanted is None:
        raise Malformed(f"{subtask.subtask} of epoch {subtask.epoch}: there is no model version")
    return wanted


def _split(plan: JobPlan) -> str:
    if plan.spec.evaluate is None:
        raise Malformed(f"job {plan.spec.name!r} does not evaluate")
    return plan.spec.evaluate.split


def _device(plan: JobPlan) -> torch.device:
    return torch.device("cuda" if plan.spec.workers.gpu and torch.cuda.is_available() else "cpu")
