"""DeDLOC against ordinary large-batch training: the loss, optimizer step by optimizer step.

The pipeline's side is a real run on the local stack: workers send gradients, the aggregator takes a
step per full batch; the loss of a step is that of its contributions' headers. The other side is
torch alone, in one process. Invariant: both see every shard once an epoch, and as many samples a
step; nothing else of the pipeline reaches the synchronous side.
"""

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks.reproduce.clothes_task import Perceptron
from benchmarks.reproduce.stack import Contribution, Given, run_on_stack
from benchmarks.reproduce.study import SEED, Study
from benchmarks.reproduce.training import Images
from spotgrad.planning.order import shard_order
from worker_image.batches import Batch
from worker_image.seeds import seed_everything

__all__ = ["large_batch", "losses_of", "synchronous"]

SHARDS_PER_STEP: Final = 5
EPOCHS: Final = 6
SLOW_SECONDS: Final = (0.0, 0.2)
"""Of each worker: they are unequal."""
LR, MOMENTUM = 0.3, 0.9
OTHER_SEED: Final = 1


def large_batch(study: Study) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the pipeline's losses by step, and those of one process: same shards, other order."""
    samples = SHARDS_PER_STEP * (len(Images.of(study).whole.shards[0][0]) // study.shards)
    with tempfile.TemporaryDirectory() as folder:
        given = Given(_job(study, samples), workers=len(SLOW_SECONDS), slow_seconds=SLOW_SECONDS)
        real = run_on_stack(study, given, Path(folder, "job"))
    yield (
        "pipeline",
        {
            "state": real.state,
            "audit": list(real.findings) or "clean",
            "accuracy": real.accuracy,
            "target_batch_size": samples,
            "slow_seconds": SLOW_SECONDS,
            "loss": losses_of(real.contributions),
        },
    )
    yield "one process, same order", synchronous(study, SEED)
    yield "one process, other order", synchronous(study, OTHER_SEED)


def _job(study: Study, samples: int) -> dict[str, Any]:
    optimizer = {"name": "sgd", "lr": LR, "momentum": MOMENTUM}
    merge = {"rule": "dedloc", "target_batch_size": samples, "optimizer": optimizer}
    schedule = {"issue": "rolling", "max_in_flight": 2 * SHARDS_PER_STEP}
    return {**study.job(merge, epochs=EPOCHS, in_flight=len(SLOW_SECONDS)), "schedule": schedule}


def losses_of(contributions: Sequence[Contribution]) -> list[float]:
    """Return the mean training loss of each version's gradient, over the samples of its batch."""
    totals: dict[int, float] = defaultdict(float)
    samples: dict[int, int] = defaultdict(int)
    for one in contributions:
        totals[one.version] += one.loss * one.samples
        samples[one.version] += one.samples
    return [totals[version] / samples[version] for version in sorted(totals)]


def synchronous(study: Study, order_seed: int) -> dict[str, Any]:
    """Train with torch's optimizer, in batches of as many shards, in ``order_seed``'s order."""
    images = Images.of(study)
    seed_everything(SEED)
    task = Perceptron(pixels=study.pixels, hidden=study.hidden)
    optimizer = torch.optim.SGD(task.parameters(), lr=LR, momentum=MOMENTUM)
    losses: list[float] = []
    for epoch in range(1, EPOCHS + 1):
        order = shard_order(order_seed, epoch, study.shards)
        for first in range(0, study.shards, SHARDS_PER_STEP):
            batch = [images.shards[each] for each in order[first : first + SHARDS_PER_STEP]]
            losses.append(_step(task, optimizer, batch, study.batch_size))
    pixels, labels = images.test
    with torch.no_grad():
        right = task.eval()(pixels).argmax(1) == labels
    return {"accuracy": float(right.double().mean()), "loss": losses}


def _step(
    task: Perceptron, optimizer: torch.optim.Optimizer, shards: Sequence[Batch], size: int
) -> float:
    """Take one step by the mean gradient over all samples; return their mean loss before it."""
    task.train()
    optimizer.zero_grad()
    total = sum(len(labels) for _, labels in shards)
    mean = 0.0
    for images, labels in shards:
        for first in range(0, len(labels), size):
            rows = slice(first, first + size)
            share = len(labels[rows]) / total
            loss = task.training_step((images[rows], labels[rows]), 0) * share
            torch.autograd.backward(loss)
            mean += float(loss.detach())
    optimizer.step()
    return mean
