from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from spotgrad.errors import InvalidJob
from spotgrad.planning.sharding import (
    assign,
    columns_of,
    hold_out,
    label_histogram,
    samples_of,
    shard_count,
)
from spotgrad.protocol.dataset import Column


def columns(samples: int) -> dict[str, NDArray[Any]]:
    return {
        "x": np.arange(2 * samples, dtype=np.float32).reshape(samples, 2),
        "y": np.arange(samples) % 3,
    }


@given(
    samples=st.integers(1, 300), shards=st.integers(1, 300), seed=st.none() | st.integers(0, 2**63)
)
def test_every_sample_is_in_one_shard_and_sizes_differ_by_one(
    samples: int, shards: int, seed: int | None
) -> None:
    shards = min(shards, samples)
    parts = assign(samples, shards, seed)
    sizes = [len(part) for part in parts]
    assert sorted(np.concatenate(parts).tolist()) == list(range(samples))
    assert len(parts) == shards
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1


def test_a_seed_gives_the_same_shards_for_ever() -> None:
    golden = [[3, 2, 1, 8], [6, 0, 7], [4, 5, 9]]
    assert [part.tolist() for part in assign(10, 3, 0)] == golden


def test_another_seed_gives_other_shards_and_no_seed_keeps_the_order() -> None:
    assert [part.tolist() for part in assign(10, 3, 1)] != [p.tolist() for p in assign(10, 3, 0)]
    assert [part.tolist() for part in assign(5, 2, None)] == [[0, 1, 2], [3, 4]]


def test_held_out_samples_are_the_share_rounded_up_and_nobody_is_in_both() -> None:
    splits = hold_out(columns(1797), 0.2, seed=0)
    train, validation = splits["train"]["x"][:, 0], splits["validation"]["x"][:, 0]
    assert (len(train), len(validation)) == (1437, 360)
    assert sorted([*train, *validation]) == list(range(0, 2 * 1797, 2))
    assert train.tolist() == sorted(train)
    assert (splits["train"]["y"] == train / 2 % 3).all()


@pytest.mark.parametrize(("samples", "share", "held"), [(100, 0.07, 7), (10, 0.01, 1), (3, 0.5, 2)])
def test_how_many_are_held_out(samples: int, share: float, held: int) -> None:
    assert len(hold_out(columns(samples), share, seed=3)["validation"]["y"]) == held


def test_no_share_holds_nothing_out() -> None:
    assert list(hold_out(columns(4), 0, seed=0)) == ["train"]


def test_holding_out_everything_is_refused() -> None:
    with pytest.raises(InvalidJob, match=r"1 of 1 samples held out leaves none"):
        hold_out(columns(1), 0.2, seed=0)


def test_columns_are_described_in_the_order_of_train() -> None:
    swapped = dict(reversed(columns(2).items()))
    assert columns_of({"validation": swapped, "train": columns(4)}) == (
        Column(name="x", dtype="float32", shape=(2,)),
        Column(name="y", dtype="int64", shape=()),
    )


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.float64, ml_dtypes.bfloat16])
def test_dtypes_of_tensors_are_columns(dtype: Any) -> None:
    (column,) = columns_of({"train": {"x": np.zeros((2, 3), dtype)}})
    assert column.dtype == np.dtype(dtype).name


BAD: list[tuple[dict[str, dict[str, NDArray[Any]]], str]] = [
    ({}, "no split 'train' (it has none)"),
    ({"test": columns(2)}, "no split 'train' (it has 'test')"),
    ({"train": {}}, "split 'train' has no columns"),
    ({"train": columns(0)}, "split 'train' is empty"),
    ({"train": columns(2), "validation": columns(0)}, "split 'validation' is empty"),
    ({"train": {"x": np.array(3.0)}}, "column train.x is a single value"),
    ({"train": {"x": np.zeros(3), "y": np.zeros(2)}}, "unequal length: x 3, y 2"),
    ({"train": {"x": np.array(["a"])}}, "column train.x holds <U1"),
    ({"train": {"x": np.array([{}], dtype=object)}}, "column train.x holds object"),
    ({"train": {"x": np.zeros(1, np.longdouble)}}, "column train.x holds float128"),
    ({"train": {"x": np.zeros(1, np.complex64)}}, "column train.x holds complex64"),
    ({"train": {"x": np.array([0.0, np.nan])}}, "column train.x holds NaN"),
    ({"train": {"x": np.array([np.nan], ml_dtypes.bfloat16)}}, "column train.x holds NaN"),
    ({"train": {"": np.zeros(1)}}, "column named ''"),
    ({"train": {"__metadata__": np.zeros(1)}}, "column named '__metadata__'"),
    (
        {"train": columns(2), "validation": {"x": np.zeros((2, 3), np.float32)}},
        "split 'validation' has x float32[3], but 'train' has x float32[2], y int64[]",
    ),
]


@pytest.mark.parametrize(("splits", "message"), BAD)
def test_what_is_no_data_set_is_refused_in_one_line(
    splits: dict[str, dict[str, NDArray[Any]]], message: str
) -> None:
    with pytest.raises(InvalidJob) as caught:
        columns_of(splits)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_samples_are_counted_along_axis_0() -> None:
    assert samples_of("train", columns(7)) == 7


def test_training_is_cut_as_asked_and_the_rest_by_size() -> None:
    assert shard_count("train", 16, 16) == 16
    assert [shard_count("validation", n, 16) for n in (1, 5000, 5001)] == [1, 1, 2]


def test_fewer_samples_than_shards_is_refused() -> None:
    with pytest.raises(InvalidJob, match=r"10 samples in split 'train' cannot fill 16 shards"):
        shard_count("train", 10, 16)


def test_labels_are_counted_in_an_integer_column_named_y() -> None:
    assert label_histogram({"y": np.array([2, 0, 2], np.uint8)}) == {"0": 1, "2": 2}


@pytest.mark.parametrize("labels", [np.zeros(2), np.zeros((2, 2), np.int64), np.zeros(2, np.bool_)])
def test_other_columns_named_y_hold_no_labels(labels: NDArray[Any]) -> None:
    assert label_histogram({"y": labels}) == {}


def test_without_labels_there_is_no_histogram() -> None:
    assert label_histogram({"x": np.zeros(2, np.int64)}) == {}
