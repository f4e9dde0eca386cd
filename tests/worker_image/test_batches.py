from collections.abc import Iterable

import ml_dtypes
import numpy as np
import pytest
import torch

from spotgrad.protocol.dataset import Column
from spotgrad.protocol.tensors import decode, encode
from worker_image.batches import Rows, in_order, shuffled, take, to_columns
from worker_image.state import Arrays

ROWS = (torch.arange(7).float(), torch.arange(7) * 10)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sizes(batches: Iterable[Rows]) -> list[int]:
    return [len(rows) for rows in batches]


@pytest.mark.parametrize(
    ("rows", "batch_size", "expected"),
    [
        (7, 3, [3, 4]),  # 3, 3 and a last one that BatchNorm could not train on
        (8, 3, [3, 3, 2]),
        (6, 3, [3, 3]),
        (4, 3, [4]),
        (1, 3, [1]),
        (3, 1, [1, 1, 1]),
        (3, 99, [3]),
    ],
)
def test_sizes_of_training_batches(rows: int, batch_size: int, expected: list[int]) -> None:
    assert sizes(shuffled(rows, batch_size, seeded(1))) == expected


def test_every_sample_comes_once_a_pass_with_its_columns_together() -> None:
    batches = [take(ROWS, rows) for rows in shuffled(7, 2, seeded(1))]
    x = torch.cat([batch[0] for batch in batches])
    y = torch.cat([batch[1] for batch in batches])
    assert sorted(x.tolist()) == list(range(7))
    assert y.tolist() == [10 * value for value in x.tolist()]


def test_the_order_is_the_generators_and_another_in_the_next_pass() -> None:
    def order(generator: torch.Generator) -> list[int]:
        return torch.cat(shuffled(7, 2, generator)).tolist()

    one, two = seeded(1), seeded(1)
    first, second = order(one), order(one)
    assert first != second
    assert [order(two), order(two)] == [first, second]
    assert order(seeded(2)) != first


def test_evaluation_goes_in_order_and_leaves_out_nothing() -> None:
    batches = in_order(7, 3)
    assert sizes(batches) == [3, 3, 1]
    y = torch.cat([take(ROWS, rows)[1] for rows in batches])
    assert y.tolist() == ROWS[1].tolist()


def column(name: str) -> Column:
    return Column(name=name, dtype="any", shape=())


def test_columns_come_in_the_manifests_order_and_in_torchs_terms() -> None:
    arrays: Arrays = {
        "images": np.arange(8, dtype=np.uint8).reshape(2, 2, 2),
        "labels": np.array([3, 255], np.uint8),
        "tokens": np.array([[1, 2], [3, 4]], np.int32),
        "big": np.array([1, 2**40], np.uint64),
        "flags": np.array([True, False]),
        "half": np.array([1.5, 2.5], ml_dtypes.bfloat16),
        "x": np.array([0.1, 0.2], np.float32),
    }
    order = ["tokens", "images", "labels", "x", "half", "flags", "big"]
    read = decode(encode(arrays, {})).tensors
    found = to_columns(read, [column(name) for name in order])
    assert [tensor.dtype for tensor in found] == [
        torch.int64,
        torch.uint8,
        torch.int64,
        torch.float32,
        torch.bfloat16,
        torch.bool,
        torch.int64,
    ]
    for name, tensor in zip(order, found, strict=True):
        assert tensor.tolist() == arrays[name].astype(object).tolist(), name
