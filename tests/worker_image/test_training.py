import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from spotgrad.errors import Unsupported
from spotgrad.protocol.job import Local
from spotgrad.protocol.result import Base, Evaluated, Initialized, ModelMetadata, Sum, Trained
from tests.worker_image.world import COMMIT, RUN
from worker_image.batches import Batch
from worker_image.seeds import seed_everything
from worker_image.training import Product, evaluate, initialize, train
from worker_image.watch import Watch

VERSION = ModelMetadata(job="j", run=RUN, version=4, commit=COMMIT, results_merged=9, roles={})
SGD: dict[str, Any] = {"name": "sgd", "lr": 0.1}


def local(**changes: Any) -> Local:
    return Local.model_validate({"batch_size": 4, "optimizer": SGD, **changes})


def rows(count: int) -> Batch:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(count, 3, generator=generator)
    return x, (x.sum(1) > 0).long()


def trained(task: nn.Module, data: Batch, *, seed: int = 1, **changes: Any) -> Product:
    generator = seed_everything(seed)
    watch = Watch(lambda: None)
    return train(task, data, local(**changes), VERSION, generator=generator, watch=watch)


def evaluated(task: nn.Module, data: Batch, **changes: Any) -> dict[str, Sum]:
    product = evaluate(task, data, local(**changes), VERSION, watch=Watch(lambda: None))
    assert product.tensors == {}
    assert isinstance(product.outcome, Evaluated)
    assert (product.outcome.version, product.outcome.commit) == (4, COMMIT)
    return product.outcome.sums


class Task(nn.Module):
    """Linear, with batch norm and dropout: everything that training mode changes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2)
        )
        self.seen: list[tuple[int, int]] = []

    def training_step(self, batch: Batch, batch_idx: int) -> Any:
        x, y = batch
        self.seen.append((batch_idx, len(x)))
        return nn.functional.cross_entropy(self.layers(x), y)


class Judged(Task):
    def validation_step(self, batch: Batch, batch_idx: int) -> Any:
        assert not self.training
        assert not torch.is_grad_enabled()
        x, y = batch
        return {"accuracy": (self.layers(x).argmax(1) == y).float().mean(), "index": batch_idx}


def test_initialize_returns_all_tensors_and_what_they_are() -> None:
    task = Task()
    product = initialize(task)
    assert isinstance(product.outcome, Initialized)
    assert product.outcome.roles.keys() == product.tensors.keys() == task.state_dict().keys()
    assert product.outcome.roles["layers.1.running_mean"] == "buffer"
    assert (
        product.tensors["layers.0.weight"].tolist() == task.state_dict()["layers.0.weight"].tolist()
    )


def test_training_is_what_a_plain_loop_does() -> None:
    data = rows(8)
    ours = nn.Linear(3, 2)
    by_hand = nn.Linear(3, 2)
    by_hand.load_state_dict(ours.state_dict())

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = ours

        def training_step(self, batch: Batch, _batch_idx: int) -> Any:
            return {"loss": nn.functional.cross_entropy(self.linear(batch[0]), batch[1])}

    optimizer: dict[str, Any] = {"name": "sgd", "lr": 0.1, "momentum": 0.9}
    product = trained(Plain(), data, passes=3, batch_size=8, optimizer=optimizer)
    reference = torch.optim.SGD(by_hand.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(3):
        reference.zero_grad()
        loss = nn.functional.cross_entropy(by_hand(data[0]), data[1])
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        reference.step()
        losses.append(loss.item())
    weight = by_hand.weight.detach().numpy()
    np.testing.assert_allclose(product.tensors["linear.weight"], weight, rtol=1e-5)
    outcome = product.outcome
    assert isinstance(outcome, Trained)
    assert outcome.base == Base(version=4, commit=COMMIT, results_merged=9)
    assert outcome.samples == 8
    assert outcome.roles == {"linear.weight": "parameter", "linear.bias": "parameter"}
    assert outcome.sums["loss"].count == 24
    assert outcome.sums["loss"].total == pytest.approx(8 * sum(losses), rel=1e-5)


def test_every_pass_sees_every_batch_and_no_batch_of_one() -> None:
    task = Task()
    trained(task, rows(9), passes=2)
    assert task.seen == [(0, 4), (1, 5)] * 2
    assert int(task.state_dict()["layers.1.num_batches_tracked"]) == 4


def test_the_same_subtask_gives_the_same_bits_whatever_the_process_did_before() -> None:
    def bits(seed: int) -> dict[str, bytes]:
        product = trained(Task(), rows(16), seed=seed, passes=2)
        return {name: array.tobytes() for name, array in product.tensors.items()}

    first = bits(1)
    torch.rand(3)
    assert bits(1) == first
    assert bits(2) != first


def test_a_batch_is_passed_over_when_its_step_returns_nothing() -> None:
    class Picky(Task):
        def training_step(self, batch: Batch, batch_idx: int) -> Any:
            return None if batch_idx == 0 else super().training_step(batch, batch_idx)

    task = Picky()
    product = trained(task, rows(8))
    assert task.seen == [(1, 4)]
    assert isinstance(product.outcome, Trained)
    assert product.outcome.sums["loss"].count == 4


@pytest.mark.parametrize(
    ("output", "problem"),
    [({"accuracy": 1}, "returned a dict"), (0.5, "returned a float"), ([], "returned a list")],
)
def test_a_step_without_a_loss_is_refused(
    monkeypatch: pytest.MonkeyPatch, output: Any, problem: str
) -> None:
    task = Task()
    monkeypatch.setattr(task, "training_step", lambda _batch, _index: output)
    with pytest.raises(Unsupported, match=f"training_step {problem} without a loss tensor"):
        trained(task, rows(4))


def test_frozen_tensors_stay_and_are_said_to_be() -> None:
    task = Task()
    task.layers[0].requires_grad_(requires_grad=False)
    before = task.state_dict()["layers.0.weight"].tolist()
    product = trained(task, rows(8))
    assert product.tensors["layers.0.weight"].tolist() == before
    assert isinstance(product.outcome, Trained)
    assert product.outcome.roles["layers.0.weight"] == "frozen"
    assert product.outcome.roles["layers.4.weight"] == "parameter"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_precision_changes_the_arithmetic_and_not_the_parameters(precision: str) -> None:
    dtypes = []

    class Spy(Judged):
        def training_step(self, batch: Batch, batch_idx: int) -> Any:
            dtypes.append(self.layers(batch[0]).dtype)
            return super().training_step(batch, batch_idx)

    product = trained(Spy(), rows(4), precision=precision)
    assert dtypes == [torch.bfloat16 if precision == "bf16" else torch.float32]
    assert product.tensors["layers.0.weight"].dtype == np.float32
    assert evaluated(Spy(), rows(4), precision=precision)["accuracy"].count == 4


def test_a_module_of_bfloat16_trains_and_uploads_bfloat16() -> None:
    class Narrow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2, dtype=torch.bfloat16)

        def training_step(self, batch: Batch, _batch_idx: int) -> Any:
            return nn.functional.cross_entropy(self.linear(batch[0].bfloat16()), batch[1])

    product = trained(Narrow(), rows(8))
    assert str(product.tensors["linear.weight"].dtype) == "bfloat16"


def test_a_lone_sample_can_be_trained_on_without_batch_norm() -> None:
    task = Task()
    task.layers[1] = nn.Identity()
    product = trained(task, rows(1))
    assert isinstance(product.outcome, Trained)
    assert product.outcome.samples == 1


def test_whatever_the_watch_raises_ends_training_after_that_batch() -> None:
    task, calls = Task(), []

    def check() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise TimeoutError

    watch = Watch(check)
    with pytest.raises(TimeoutError):
        train(task, rows(16), local(), VERSION, generator=torch.Generator(), watch=watch)
    assert [index for index, _ in task.seen] == [0, 1]
    assert watch.batch_idx == 1


def test_evaluation_weighs_each_batch_by_its_samples() -> None:
    task = Judged()
    data = rows(5)
    sums = evaluated(task, data)
    right = (task.eval().layers(data[0]).argmax(1) == data[1]).sum().item()
    assert sums["accuracy"].total == pytest.approx(right)
    assert sums["accuracy"].count == 5
    assert sums["index"] == Sum(total=1.0, count=5)  # index 0 for four samples, 1 for one


def test_evaluation_changes_nothing() -> None:
    task = Judged()
    before = {name: tensor.clone() for name, tensor in task.state_dict().items()}
    evaluated(task, rows(5))
    assert all(torch.equal(tensor, before[name]) for name, tensor in task.state_dict().items())


def test_without_a_validation_step_the_training_loss_is_the_metric() -> None:
    task, data = Task(), rows(5)
    sums = evaluated(task, data)
    loss = nn.functional.cross_entropy(task.eval().layers(data[0]), data[1])
    assert list(sums) == ["loss"]
    assert sums["loss"].total / 5 == pytest.approx(loss.item(), rel=1e-5)


@pytest.mark.parametrize("output", [None, {}, math.nan])
def test_an_evaluation_that_says_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch, output: Any
) -> None:
    task = Judged()
    monkeypatch.setattr(task, "validation_step", lambda _batch, _index: output)
    with pytest.raises(Unsupported, match="neither returned nor logged"):
        evaluated(task, rows(4))
