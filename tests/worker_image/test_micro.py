"""A batch that does not fit into memory is worked on in parts, and nobody can tell."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from spotgrad.protocol.result import Evaluated, ModelMetadata, Trained
from tests.worker_image.resumable import BASE, local
from tests.worker_image.world import COMMIT, RUN
from worker_image.batches import Batch
from worker_image.micro import MicroBatches
from worker_image.seeds import seed_everything
from worker_image.training import Product, Training, evaluate
from worker_image.watch import Watch

VERSION = ModelMetadata(job="j", run=RUN, version=4, commit=COMMIT, results_merged=9, roles={})
ROWS = torch.arange(10)


class Heavy(nn.Module):
    """A small network without BatchNorm that needs memory in proportion to the batch."""

    def __init__(self, fits: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
        self.fits = fits
        self.tried: list[int] = []

    def training_step(self, batch: Batch, _batch_idx: int) -> Any:
        self.tried.append(len(batch[0]))
        scores = self.layers(batch[0])
        self.log("seen", float(len(batch[0])))  # type: ignore[operator]  # the worker's
        if len(batch[0]) > self.fits:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return nn.functional.cross_entropy(scores, batch[1])


def data(samples: int) -> Batch:
    x = torch.randn(samples, 3, generator=torch.Generator().manual_seed(3))
    return x, (x.sum(1) > 0).long()


def trained(task: nn.Module, samples: int = 10) -> Product:
    watch = Watch(lambda: None)
    how = local(batch_size=5, passes=2)
    return Training(task, data(samples), how, BASE, generator=seed_everything(7), watch=watch).run()


@pytest.mark.parametrize("samples", [10, 12])
@pytest.mark.parametrize("fits", [4, 3, 2, 1])
def test_the_effective_batch_is_unchanged(fits: int, samples: int) -> None:
    expected, found = trained(Heavy(99), samples), trained(Heavy(fits), samples)
    for name, array in expected.tensors.items():
        np.testing.assert_allclose(found.tensors[name], array, rtol=0, atol=1e-6)
    assert isinstance(found.outcome, Trained)
    assert isinstance(expected.outcome, Trained)
    assert found.outcome.sums["loss"].count == expected.outcome.sums["loss"].count
    assert found.outcome.sums["seen"].count == 2 * samples
    total = expected.outcome.sums["loss"].total
    assert found.outcome.sums["loss"].total == pytest.approx(total, rel=1e-5)


def test_what_did_not_fit_once_is_not_tried_again() -> None:
    task = Heavy(2)
    trained(task)
    assert task.tried[:4] == [5, 3, 2, 2]
    assert set(task.tried[4:]) <= {1, 2}


def test_a_single_sample_that_does_not_fit_is_a_failure() -> None:
    task = Heavy(0)
    with pytest.raises(torch.OutOfMemoryError):
        trained(task)
    assert task.tried == [5, 3, 2, 1]


def test_evaluation_splits_its_batches_too() -> None:
    def sums(fits: int) -> Any:
        product = evaluate(
            Heavy(fits), data(9), local(batch_size=9), VERSION, watch=Watch(lambda: None)
        )
        assert isinstance(product.outcome, Evaluated)
        return product.outcome.sums["loss"]

    assert sums(2).count == sums(99).count == 9
    assert sums(2).total == pytest.approx(sums(99).total, rel=1e-5)


def test_what_fits_is_worked_on_whole_and_other_errors_pass() -> None:
    micro = MicroBatches()
    forgotten: list[int] = []
    done = micro.work(ROWS, len, lambda: forgotten.append(1))
    assert [(part.tolist(), size) for part, size in done] == [(ROWS.tolist(), 10)]
    assert forgotten == [1]

    def broken(_: torch.Tensor) -> None:
        raise RuntimeError("shapes")

    with pytest.raises(RuntimeError, match="shapes"):
        micro.work(ROWS, broken, lambda: None)
