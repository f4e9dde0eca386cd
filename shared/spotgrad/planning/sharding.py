"""Which sample goes to which shard: a seeded permutation, cut into equal pieces.

Not the bytes of a shard, and not its upload (``steps.push_dataset``). Invariants: every sample is
in exactly one shard of its split, sizes differ by at most one, and a seed gives the same shards on
every machine, for ever (the bit generator's raw stream is stable, ``Generator.permutation`` is
not: https://numpy.org/neps/nep-0019-rng-policy.html).
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from spotgrad.errors import InvalidJob
from spotgrad.protocol.dataset import Column
from spotgrad.protocol.tensor_header import METADATA

Arrays = Mapping[str, NDArray[Any]]
"""The columns of one split by name; axis 0 counts samples."""

TRAIN: Final = "train"
VALIDATION: Final = "validation"
ABOUT_ARRAYS: Final = "data set: "
"""What every finding about the arrays themselves begins with; they do not know their file."""
SAMPLES_PER_SHARD: Final = 5000
"""At most so many samples are in a shard of a split that is not trained on."""


def hold_out(arrays: Arrays, share: float, seed: int) -> dict[str, dict[str, NDArray[Any]]]:
    """Return ``train`` and, when ``share`` is above 0, a seeded ``validation`` split.

    Samples keep their order within both splits. The number held out is rounded up.

    Raises:
        InvalidJob: the columns do not fit together, or a split would be empty.
    """
    if share == 0:
        return {TRAIN: dict(arrays)}
    samples = samples_of(TRAIN, arrays)
    held = math.ceil(round(share * samples, 6))  # 0.07 * 100 is a little over 7
    if held >= samples:
        raise InvalidJob(
            f"validation {share:g}: {held} of {samples} samples held out leaves none for training"
        )
    order = _permutation(samples, seed)
    parts = {TRAIN: np.sort(order[held:]), VALIDATION: np.sort(order[:held])}
    return {
        split: {name: array[rows] for name, array in arrays.items()}
        for split, rows in parts.items()
    }


def columns_of(splits: Mapping[str, Arrays]) -> tuple[Column, ...]:
    """Return what the columns of every split look like, in the order of ``train``.

    Raises:
        InvalidJob: no ``train`` split, an empty one, columns that differ between splits, are of
            unequal length, hold objects or NaN; the message names the split and the column.
    """
    if TRAIN not in splits:
        raise InvalidJob(
            f"{ABOUT_ARRAYS}no split {TRAIN!r} (it has {_listed(splits)}); name one so"
        )
    described = {split: _described(split, arrays) for split, arrays in splits.items()}
    first = described[TRAIN]
    for split, columns in described.items():
        if {column.name: column for column in columns} != {column.name: column for column in first}:
            raise InvalidJob(
                f"{ABOUT_ARRAYS}split {split!r} has {_shown(columns)}, "
                f"but {TRAIN!r} has {_shown(first)}; all splits need the same columns"
            )
    return first


def samples_of(split: str, arrays: Arrays) -> int:
    """Return the number of samples of a split.

    Raises:
        InvalidJob: no columns, no samples, or columns of unequal length.
    """
    if not arrays:
        raise InvalidJob(f"{ABOUT_ARRAYS}split {split!r} has no columns")
    for name, array in arrays.items():
        if array.ndim == 0:
            raise InvalidJob(
                f"{ABOUT_ARRAYS}column {split}.{name} is a single value; axis 0 counts samples"
            )
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        unequal = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InvalidJob(f"{ABOUT_ARRAYS}split {split!r} has columns of unequal length: {unequal}")
    samples = next(iter(lengths.values()))
    if samples == 0:
        raise InvalidJob(f"{ABOUT_ARRAYS}split {split!r} is empty: it has no samples")
    return samples


def shard_count(split: str, samples: int, train_shards: int) -> int:
    """Return into how many shards a split is cut.

    Raises:
        InvalidJob: fewer samples than shards.
    """
    if split != TRAIN:
        return math.ceil(samples / SAMPLES_PER_SHARD)
    if samples < train_shards:
        raise InvalidJob(
            f"{ABOUT_ARRAYS}{samples} samples in split {TRAIN!r} cannot fill {train_shards} "
            f"shards; use at most --shards {samples}"
        )
    return train_shards


def assign(samples: int, shards: int, seed: int | None) -> list[NDArray[np.intp]]:
    """Return the sample numbers of each shard; without a seed samples stay in their order.

    Sizes differ by at most one; the first shards are the larger ones.
    """
    order = np.arange(samples, dtype=np.intp) if seed is None else _permutation(samples, seed)
    return np.array_split(order, shards)


def label_histogram(arrays: Arrays) -> dict[str, int]:
    """Return samples by label when there is an integer column ``y`` of single labels."""
    labels = arrays.get("y")
    if labels is None or labels.ndim != 1 or labels.dtype.kind not in "iu":
        return {}
    values, counts = np.unique(labels, return_counts=True)
    return {str(value): int(count) for value, count in zip(values, counts, strict=True)}


def _permutation(samples: int, seed: int) -> NDArray[np.intp]:
    keys = np.random.PCG64(seed).random_raw(samples)
    return np.argsort(keys, kind="stable")


def _described(split: str, arrays: Arrays) -> tuple[Column, ...]:
    samples_of(split, arrays)
    return tuple(_column(split, name, array) for name, array in arrays.items())


def _column(split: str, name: str, array: NDArray[Any]) -> Column:
    bfloat16 = array.dtype == ml_dtypes.bfloat16
    if name in ("", METADATA):
        raise InvalidJob(f"{ABOUT_ARRAYS}split {split!r} has a column named {name!r}; rename it")
    if not bfloat16 and (array.dtype.kind not in "biuf" or array.dtype.itemsize > 8):
        raise InvalidJob(
            f"{ABOUT_ARRAYS}column {split}.{name} holds {array.dtype}; "
            "use booleans, integers or floats of 16 to 64 bits"
        )
    if (array.dtype.kind == "f" or bfloat16) and np.isnan(array).any():
        raise InvalidJob(
            f"{ABOUT_ARRAYS}column {split}.{name} holds NaN; drop or fill those samples"
        )
    return Column(name=name, dtype=array.dtype.name, shape=array.shape[1:])


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(repr(name) for name in names) or "none"


def _shown(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"{column.name} {column.dtype}{list(column.shape)}" for column in columns)
