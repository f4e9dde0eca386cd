import json
from typing import Any

import pytest

from spotgrad.errors import Malformed
from spotgrad.protocol.dataset import DatasetManifest

SHARD: dict[str, Any] = {
    "key": "datasets/digits/000000-0123456789abcdef.safetensors",
    "samples": 90,
    "size_bytes": 24_000,
    "sha256": "0123456789abcdef" * 4,
}
MANIFEST: dict[str, Any] = {
    "schema": 1,
    "dataset": "digits",
    "columns": [
        {"name": "x", "dtype": "F32", "shape": [1, 8, 8]},
        {"name": "y", "dtype": "I64", "shape": []},
    ],
    "splits": {
        "train": {"shards": [SHARD, SHARD | {"samples": 89, "label_histogram": {"7": 89}}]},
        "validation": {"shards": [SHARD]},
    },
}


def read(**changes: Any) -> DatasetManifest:
    return DatasetManifest.from_json(json.dumps(MANIFEST | changes))


def test_a_manifest_is_read() -> None:
    manifest = read()
    assert [column.name for column in manifest.columns] == ["x", "y"]
    assert manifest.columns[1].shape == ()
    assert manifest.splits["train"].samples == 179
    assert manifest.splits["train"].shards[1].label_histogram == {"7": 89}
    assert manifest.splits["validation"].shards[0].label_histogram == {}


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"dataset": "../digits"}, "dataset"),
        ({"columns": []}, "columns"),
        ({"splits": {}}, "splits"),
        ({"splits": {"train": {"shards": []}}}, "splits.train.shards"),
        (
            {"splits": {"train": {"shards": [SHARD | {"samples": 0}]}}},
            "splits.train.shards.0.samples",
        ),
        (
            {"splits": {"train": {"shards": [SHARD | {"sha256": "x"}]}}},
            "splits.train.shards.0.sha256",
        ),
    ],
)
def test_an_empty_or_wrong_manifest_is_refused(changes: dict[str, Any], place: str) -> None:
    with pytest.raises(Malformed, match=rf"^data set manifest: {place}: "):
        read(**changes)


HOSTILE = {
    "out of the prefix": "datasets/digits/../../state/digits/head.json",
    "another prefix": "state/digits/000000-0123456789abcdef.safetensors",
    "another data set": "datasets/secret/000000-0123456789abcdef.safetensors",
    "a longer name": "datasets/digits-2/000000-0123456789abcdef.safetensors",
    "absolute": "/datasets/digits/000000-0123456789abcdef.safetensors",
    "a file": "file:///etc/passwd",
    "a bucket": "s3://other/datasets/digits/000000-0123456789abcdef.safetensors",
    "encoded": "datasets%2Fdigits%2F000000-0123456789abcdef.safetensors",
    "encoded dots": "datasets/digits/%2e%2e/000000-0123456789abcdef.safetensors",
    "backslashes": "datasets\\digits\\000000-0123456789abcdef.safetensors",
    "a folder between": "datasets/digits/x/000000-0123456789abcdef.safetensors",
    "a newline": "datasets/digits/000000-0123456789abcdef.safetensors\n",
    "upper case": "datasets/digits/000000-0123456789ABCDEF.safetensors",
    "a pickle": "datasets/digits/000000-0123456789abcdef.pkl",
    "nothing": "",
}


@pytest.mark.parametrize("key", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_shard_lies_in_its_own_data_set_alone(key: str) -> None:
    splits = {"train": {"shards": [SHARD]}, "validation": {"shards": [SHARD, SHARD | {"key": key}]}}
    with pytest.raises(Malformed) as caught:
        read(splits=splits)
    assert str(caught.value).startswith("data set manifest: ")
    assert repr(key) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_shard_is_named_by_its_content() -> None:
    other = "f" * 64
    with pytest.raises(Malformed, match=f"its SHA-256 is said to be {other}"):
        read(splits={"train": {"shards": [SHARD | {"sha256": other}]}})


def test_a_key_longer_than_any_is_not_repeated() -> None:
    with pytest.raises(Malformed, match="at most 1024 characters") as caught:
        read(splits={"train": {"shards": [SHARD | {"key": "x" * 100_000}]}})
    assert len(str(caught.value)) < 300
