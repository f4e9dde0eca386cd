"""A task that uses everything an interruption could disturb, and ways to cut its training off."""

import random
from typing import Any

import numpy as np
import torch
from torch import nn

from spotgrad.protocol.job import Local
from spotgrad.protocol.partial import Partial, PartialMetadata, read_partial, write_partial
from spotgrad.protocol.result import Base
from tests.worker_image.world import COMMIT, RUN
from worker_image.batches import Batch
from worker_image.seeds import seed_everything
from worker_image.snapshot import Snapshot
from worker_image.training import Product, Training
from worker_image.watch import Watch

BASE = Base(version=4, commit=COMMIT, results_merged=9)
SAMPLES = 11


class Cut(Exception):
    """The training was cut off."""


class Task(nn.Module):
    """Batch norm, dropout, draws from all three generators, and a buffer that is not persistent."""

    steps_seen: torch.Tensor

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.dtype = dtype
        self.layers = nn.Sequential(
            nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2)
        ).to(dtype)
        self.register_buffer("steps_seen", torch.zeros((), dtype=torch.int64), persistent=False)
        self.ids: list[int] = []

    def training_step(self, batch: Batch, _batch_idx: int) -> Any:
        x, y, ids = batch
        self.ids.extend(ids.tolist())
        self.steps_seen += 1
        drawn = random.gauss(0, 1) + np.random.normal()  # noqa: NPY002 - as users do
        noise = 0.01 * drawn + 0.001 * self.steps_seen
        loss = nn.functional.cross_entropy(self.layers((x + noise).to(self.dtype)), y)
        self.log("noise", float(noise))  # type: ignore[operator]  # the worker gives it this method
        return loss


class Scheduled(Task):
    """An optimizer with a schedule by step and one by pass."""

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20)
        steps = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 2], gamma=0.5)
        return [optimizer], [{"scheduler": cycle, "interval": "step"}, steps]


def data() -> Batch:
    x = torch.randn(SAMPLES, 3, generator=torch.Generator().manual_seed(3))
    return x, (x.sum(1) > 0).long(), torch.arange(SAMPLES)


def local(**changes: Any) -> Local:
    sgd = {"name": "sgd", "lr": 0.1, "momentum": 0.9}
    return Local.model_validate({"passes": 3, "batch_size": 4, "optimizer": sgd, **changes})


def trained(
    task: Task, how: Local, *, partial: Partial | None = None, cut_after: int | None = None
) -> tuple[Product | None, Partial | None]:
    """Train to the end, or up to a cut after so many batches of this attempt."""

    def check() -> None:
        if watch.worked == cut_after:
            raise Cut

    watch = Watch(check)
    training = Training(task, data(), how, BASE, generator=seed_everything(7), watch=watch)
    if partial is not None:
        training.resume(partial)
    try:
        return training.run(), None
    except Cut:
        assert watch.snapshot is not None
        taken = watch.snapshot()
    scatter()
    return None, written(taken)


def scatter() -> None:
    """Leave all generators where another process would have them: anywhere."""
    seed_everything(99)


def written(taken: Snapshot, **changes: Any) -> Partial:
    metadata = {
        "job": "tiny-job",
        "run": RUN,
        "epoch": 1,
        "subtask": "train-000000",
        "attempt": "00000001",
        "worker": "w",
        "base": taken.base,
        "code_sha256": None,
        "position": taken.position,
        "state": taken.state,
    }
    return read_partial(write_partial(PartialMetadata(**(metadata | changes)), taken.tensors))
