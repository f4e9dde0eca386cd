import errno
import os
from pathlib import Path
from typing import Any

import pytest

from worker_image.cache import Cache, FolderCache, MemoryCache
from worker_image.exit_codes import BadDisk


@pytest.fixture(params=["memory", "folder"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Cache:
    if request.param == "memory":
        return MemoryCache(limit_bytes=10)
    return FolderCache(tmp_path / "made" / "on demand", limit_bytes=10)


def test_what_was_put_is_there_and_nothing_else(cache: Cache) -> None:
    assert cache.get("aa") is None
    cache.put("aa", b"1234")
    cache.put("aa", b"1234")
    assert cache.get("aa") == b"1234"
    assert cache.get("bb") is None


def test_the_least_recently_used_goes_first(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(1, 99))
    utime = os.utime
    monkeypatch.setattr(os, "utime", lambda path: utime(path, (next(times),) * 2))
    for name in ("aa", "bb"):
        cache.put(name, name.encode() * 2)
        cache.get(name)
    cache.get("aa")
    cache.put("cc", b"1234")
    assert [cache.get(name) is not None for name in ("aa", "bb", "cc")] == [True, False, True]


def test_what_never_fits_is_not_kept_and_drops_nothing(cache: Cache) -> None:
    cache.put("aa", b"1234567890")
    cache.put("bb", b"12345678901")
    assert (cache.get("aa"), cache.get("bb")) == (b"1234567890", None)


def test_the_limit_holds_at_every_moment(tmp_path: Path) -> None:
    cache = FolderCache(tmp_path, limit_bytes=100)
    for number in range(50):
        cache.put(f"{number:02}", bytes(30))
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 100
    assert len(list(tmp_path.iterdir())) == 3


def test_a_folder_outlives_its_cache(tmp_path: Path) -> None:
    FolderCache(tmp_path).put("aa", b"1")
    assert FolderCache(tmp_path).get("aa") == b"1"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_a_bad_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def full(*_: Any) -> None:
        raise OSError(number, "No space left on device")

    cache = FolderCache(tmp_path)
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(BadDisk, match="No space left on device: use another machine"):
        cache.put("aa", b"1")
    assert cache.get("aa") is None
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = FolderCache(tmp_path / "file" / "folder")
    cache.put("aa", b"1")
    assert cache.get("aa") is None
