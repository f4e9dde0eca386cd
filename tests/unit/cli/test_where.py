from pathlib import Path

import pytest

from spotgrad.aws.s3 import S3Store
from spotgrad.cli.where import open_store
from spotgrad.directory.store import DirectoryStore
from spotgrad.settings import MissingSetting


def test_a_directory_that_exists_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bucket").mkdir()
    store = open_store("bucket")
    assert isinstance(store, DirectoryStore)
    store.put("a", b"1")
    assert Path("bucket/a").read_bytes() == b"1"


def test_a_path_that_does_not_exist_is_refused_not_made(tmp_path: Path) -> None:
    with pytest.raises(MissingSetting, match="there is no such directory"):
        open_store(str(tmp_path / "typo"))
    assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize("name", ["my-bucket", "s3://my-bucket", "s3://my-bucket/"])
def test_any_other_name_is_a_bucket(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(name)
    assert isinstance(store, S3Store)
    assert store._bucket == "my-bucket"


@pytest.mark.parametrize("name", ["", "s3://", "s3://bucket/folder"])
def test_a_bucket_is_a_name_alone(name: str) -> None:
    with pytest.raises(MissingSetting, match="bucket's name alone"):
        open_store(name)
