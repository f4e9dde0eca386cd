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
