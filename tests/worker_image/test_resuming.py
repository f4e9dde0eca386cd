"""The proof: training that is cut off and taken up again is, bit for bit, training that is not."""

from collections import Counter
from typing import Any

import pytest
import torch

from spotgrad.errors import Malformed
from spotgrad.protocol.result import Trained
from tests.worker_image.resumable import SAMPLES, Scheduled, Task, local, trained
from worker_image.training import Product

BATCHES = 3 * 3
"""Three passes over eleven samples, four at a time."""

OPTIMIZERS: list[dict[str, Any]] = [
    {"name": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": True},
    {"name": "adam", "lr": 0.01},
    {"name": "adamw", "lr": 0.01, "weight_decay": 0.1},
]


def bits(product: Product | None) -> tuple[object, dict[str, bytes]]:
    assert product is not None
    assert isinstance(product.outcome, Trained)
    return product.outcome, {name: it.tobytes() for name, it in product.tensors.items()}


@pytest.mark.parametrize("cut", range(1, BATCHES + 1))
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda each: each["name"])
def test_wherever_it_is_cut_the_result_is_the_same(cut: int, optimizer: dict[str, Any]) -> None:
    how = local(optimizer=optimizer)
    whole = Task()
    expected, _ = trained(whole, how)
    first, second = Task(), Task()
    _, partial = trained(first, how, cut_after=cut)
    assert partial is not None
    assert partial.metadata.position.steps == cut
    product, _ = trained(second, how, partial=partial)
    assert bits(product) == bits(expected)
    assert first.ids + second.ids == whole.ids
    assert Counter(whole.ids) == Counter(list(range(SAMPLES)) * 3)


@pytest.mark.parametrize("cuts", [(1, 1), (2, 3), (3, 3), (4, 4)])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", [Task, Scheduled])
def test_two_interruptions_are_no_more_than_one(
    cuts: tuple[int, int], precision: str, kind: type[Task]
) -> None:
    how = local(precision=precision)
    whole = kind()
    expected, _ = trained(whole, how)
    ids: list[int] = []
    partial = None
    for cut in (*cuts, None):
        task = kind()
        product, partial = trained(task, how, partial=partial, cut_after=cut)
        ids += task.ids
    assert bits(product) == bits(expected)
    assert ids == whole.ids


def test_parameters_of_bfloat16_come_back_as_they_were() -> None:
    how = local()
    expected, _ = trained(Task(torch.bfloat16), how)
    _, partial = trained(Task(torch.bfloat16), how, cut_after=4)
    assert partial is not None
    assert str(partial.tensors["model/layers.0.weight"].dtype) == "bfloat16"
    product, _ = trained(Task(torch.bfloat16), how, partial=partial)
    assert bits(product) == bits(expected)


def test_a_cut_after_the_last_batch_leaves_nothing_to_do_but_to_report() -> None:
    how = local()
    expected, _ = trained(Task(), how)
    _, partial = trained(Task(), how, cut_after=BATCHES)
    task = Task()
    product, _ = trained(task, how, partial=partial)
    assert task.ids == []
    assert bits(product) == bits(expected)


def test_a_partial_of_another_task_is_refused() -> None:
    _, partial = trained(Scheduled(), local(), cut_after=2)
    with pytest.raises(ValueError, match=r"zip\(\)"):
        trained(Task(), local(), partial=partial)
    _, partial = trained(Task(torch.bfloat16), local(), cut_after=2)
    assert partial is not None
    del partial.tensors["buffer/steps_seen"]
    with pytest.raises(Malformed, match="buffer 'steps_seen'"):
        trained(Task(), local(), partial=partial)
