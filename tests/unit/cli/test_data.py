from pathlib import Path

import numpy as np
import pytest

from spotgrad.directory.store import DirectoryStore
from spotgrad.protocol.dataset import DatasetManifest
from spotgrad.protocol.tensors import decode
from tests.unit.cli.conftest import Run


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "digits.npz"
    np.savez(path, x=np.arange(40, dtype=np.float32).reshape(20, 2), y=np.arange(20) % 10)
    return path


def manifest(bucket: Path) -> DatasetManifest:
    return DatasetManifest.from_json(
        DirectoryStore(bucket).get("datasets/digits/manifest.json").body
    )


def shards(bucket: Path) -> dict[str, int]:
    return {split: len(content.shards) for split, content in manifest(bucket).splits.items()}


def test_a_data_set_is_pushed_once(run: Run, bucket: Path, source: Path) -> None:
    first = run("dataset", "push", "digits", source, "--shards", 4, "--bucket", bucket)
    assert (first.code, first.err) == (0, "")
    assert first.out.splitlines() == [
        "train: 16 samples in 4 shards, 928 B",
        "validation: 4 samples in 1 shard, 232 B",
        "pushed digits: 5 shards uploaded",
    ]
    assert shards(bucket) == {"train": 4, "validation": 1}
    again = run("dataset", "push", "digits", source, "--shards", 4, "--bucket", bucket)
    assert again.out.splitlines()[-1].startswith("digits is in the bucket already")


def test_the_document_says_what_happened(run: Run, bucket: Path, source: Path) -> None:
    ran = run("dataset", "push", "digits", source, "--json", "--bucket", bucket)
    assert ran.document == {
        "dataset": "digits",
        "changed": True,
        "uploaded_shards": 17,
        "columns": [
            {"name": "x", "dtype": "float32", "shape": [2]},
            {"name": "y", "dtype": "int64", "shape": []},
        ],
        "splits": {
            "train": {"samples": 16, "shards": 16},
            "validation": {"samples": 4, "shards": 1},
        },
    }


def test_options_reach_the_cut(run: Run, bucket: Path, source: Path) -> None:
    options = ["--shards", 2, "--validation", 0, "--no-shuffle", "--bucket", bucket]
    assert run("dataset", "push", "digits", source, *options).code == 0
    first = manifest(bucket).splits["train"].shards[0]
    labels = decode(DirectoryStore(bucket).get(first.key).body).tensors["y"]
    assert labels.tolist() == list(range(10))
    assert run("dataset", "push", "digits", source, "--seed", 1, "--bucket", bucket).code == 0
    seeded = manifest(bucket)
    assert run("dataset", "push", "digits", source, "--seed", 2, "--bucket", bucket).code == 0
    assert manifest(bucket) != seeded


def test_a_source_may_say_how_many_shards_it_wants(run: Run, bucket: Path, tmp_path: Path) -> None:
    path = tmp_path / "made.py"
    path.write_text("SHARDS = 3\ndef arrays(): return {'train': {'x': list(range(6))}}\n")
    assert run("dataset", "push", "digits", path, "--bucket", bucket).code == 0
    assert shards(bucket) == {"train": 3}
    assert run("dataset", "push", "digits", path, "--shards", 2, "--bucket", bucket).code == 0
    assert shards(bucket) == {"train": 2}
