"""A contribution is the mean gradient over the samples seen, wherever it was cut off."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from spotgrad.errors import Unsupported
from spotgrad.protocol.job import Local
from spotgrad.protocol.partial import Partial
from spotgrad.protocol.result import Initialized, Trained
from tests.worker_image.resumable import BASE, Cut, Task, data, scatter, written
from worker_image.batches import Batch
from worker_image.gathering import Gathering, packed
from worker_image.seeds import seed_everything
from worker_image.training import Product
from worker_image.watch import Watch


class Plain(nn.Module):
    """Samples do not see each other, so that the batches do not matter. One tensor is frozen."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(3, 4)
        self.last = nn.Linear(4, 2)
        self.unused = nn.Linear(2, 2)
        self.last.bias.requires_grad = False

    def forward(self, x: torch.Tensor) -> Any:
        return self.last(torch.tanh(self.first(x)))

    def training_step(self, batch: Batch, _batch_idx: int) -> Any:
        x, y, _ = batch
        return nn.functional.cross_entropy(self(x), y)

    def configure_optimizers(self) -> Any:
        raise AssertionError("the one optimizer is the job's")


def gathered(
    task: nn.Module,
    size: int = 4,
    *,
    partial: Partial | None = None,
    cut_after: int | None = None,
    enough: Callable[[Watch], bool] = lambda _: False,
) -> tuple[Product | None, Partial | None]:
    def check() -> None:
        if watch.worked == cut_after:
            raise Cut

    watch = Watch(check)
    watch.enough = lambda: enough(watch)
    how = Local(batch_size=size)
    work = Gathering(task, data(), how, BASE, generator=seed_everything(7), watch=watch)
    if partial is not None:
        work.resume(partial)
    try:
        return work.run(), None
    except Cut:
        assert watch.snapshot is not None
        taken = watch.snapshot()
    scatter()
    return None, written(taken)


def contribution(product: Product | None) -> tuple[Trained, dict[str, Any]]:
    assert product is not None
    assert isinstance(product.outcome, Trained)
    return product.outcome, product.tensors


@pytest.mark.parametrize("size", [1, 3, 4, 11])
def test_it_is_the_gradient_of_the_mean_loss_over_all_samples(size: int) -> None:
    task = Plain()
    before = {name: one.clone() for name, one in task.state_dict().items()}
    outcome, tensors = contribution(gathered(task, size)[0])
    x, y, _ = data()
    whole = Plain()
    torch.autograd.backward(nn.functional.cross_entropy(whole(x), y))
    assert (outcome.samples, outcome.gradient, outcome.base) == (11, "fp32", BASE)
    assert "last.bias" not in tensors
    for name, parameter in whole.named_parameters():
        if parameter.grad is not None:
            np.testing.assert_allclose(tensors[name], parameter.grad, rtol=1e-5, atol=1e-7)
    assert not tensors["unused.weight"].any()
    after = task.state_dict()
    assert all(torch.equal(one, after[name]) for name, one in before.items())


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_wherever_it_is_cut_the_contribution_is_the_same(cut: int) -> None:
    expected, tensors = contribution(gathered(Task())[0])
    _, partial = gathered(Task(), cut_after=cut)
    assert partial is not None
    found, again = contribution(gathered(Task(), partial=partial)[0])
    assert found == expected
    assert {name: one.tobytes() for name, one in again.items()} == {
        name: one.tobytes() for name, one in tensors.items()
    }
    assert again["layers.1.running_mean"].any()


def test_a_time_slice_ends_it_with_what_was_seen() -> None:
    outcome, tensors = contribution(gathered(Plain(), enough=lambda watch: watch.worked >= 1)[0])
    assert outcome.samples in (8, 7, 4)  # after one batch of three, or two
    assert outcome.samples < 11
    assert tensors["first.weight"].any()


def test_without_any_loss_there_is_no_gradient() -> None:
    class Silent(Plain):
        def training_step(self, batch: Batch, _batch_idx: int) -> Any:
            del batch

    with pytest.raises(Unsupported, match="no loss"):
        gathered(Silent())


def test_twins_and_buffers_travel_along() -> None:
    class Tied(Plain):
        def __init__(self) -> None:
            super().__init__()
            self.twin = self.first
            self.register_buffer("seen", torch.ones(2))

    outcome, tensors = contribution(gathered(Tied())[0])
    assert outcome.roles["twin.weight"] == "alias"
    assert tensors["twin.weight"].tobytes() == tensors["first.weight"].tobytes()
    assert tensors["seen"].tolist() == [1.0, 1.0]


def test_gradients_alone_are_packed() -> None:
    product, _ = gathered(Task())
    assert product is not None
    outcome, tensors = contribution(packed(product, "fp16"))
    assert outcome.gradient == "fp16"
    assert tensors["fp16/values/layers.0.weight"].dtype == np.float16
    assert tensors["as-is/values/layers.1.running_mean"].dtype == np.float32
    first = Product(Initialized(roles={}), {})
    assert packed(first, "fp16") is first
