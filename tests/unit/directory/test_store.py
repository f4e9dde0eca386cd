"""What is particular to a folder; what every store does is in tests/contract."""

import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotgrad.directory.store import DirectoryStore
from spotgrad.errors import ConditionFailed, NotFound, StoreUnavailable, Unsupported
from spotgrad.ports import ABSENT
from tests.fakes.store import FakeStore


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "bucket")


def files(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def test_an_object_is_a_plain_file_at_its_key(store: DirectoryStore, tmp_path: Path) -> None:
    store.put("state/digits/head.json", b"{}")
    assert (tmp_path / "bucket/state/digits/head.json").read_bytes() == b"{}"


def test_a_file_that_somebody_put_there_is_an_object(store: DirectoryStore, tmp_path: Path) -> None:
    (tmp_path / "bucket/jobs").mkdir(parents=True)
    (tmp_path / "bucket/jobs/x").write_bytes(b"1")
    assert store.get("jobs/x").body == b"1"
    store.put("jobs/x", b"2", only_if=store.get("jobs/x").etag)


def test_reading_makes_nothing(store: DirectoryStore, tmp_path: Path) -> None:
    assert list(store.list("")) == []
    store.delete("a")
    with pytest.raises(NotFound, match="a"):
        store.get("a")
    assert list(tmp_path.iterdir()) == []


def test_a_write_leaves_the_object_and_the_lock_alone(
    store: DirectoryStore, tmp_path: Path
) -> None:
    tag = store.put("a/b", b"1")
    with pytest.raises(ConditionFailed):
        store.put("a/b", b"2", only_if=ABSENT)
    store.put("a/b", b"2", only_if=tag)
    assert files(tmp_path / "bucket") == [".spotgrad-lock", "a/b"]
    assert [info.key for info in store.list("")] == ["a/b"]


def test_a_temporary_file_left_by_a_dead_process_is_no_object(
    store: DirectoryStore, tmp_path: Path
) -> None:
    store.put("a", b"1")
    (tmp_path / "bucket/.spotgrad-0123456789abcdef").write_bytes(b"half a bo")
    assert [info.key for info in store.list("")] == ["a"]
    assert [info.key for info in store.list(".spotgrad-")] == []


def test_a_write_that_fails_leaves_the_old_object(
    store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a/b", b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreUnavailable, match="No space left"):
        store.put("a/b", b"new")
    assert store.get("a/b").body == b"old"
    assert files(tmp_path / "bucket") == [".spotgrad-lock", "a/b"]


def test_delete_takes_the_folders_that_it_leaves_empty(
    store: DirectoryStore, tmp_path: Path
) -> None:
    store.put("a/b/c/d", b"1")
    store.put("a/x", b"1")
    store.delete("a/b/c/d")
    assert not (tmp_path / "bucket/a/b").exists()
    store.delete("a/x")
    assert files(tmp_path / "bucket") == [".spotgrad-lock"]
    assert not (tmp_path / "bucket/a").exists()


@pytest.mark.parametrize("key", ["../a", "/etc/passwd", "a//b", "a/", ".spotgrad-lock"])
def test_no_key_leads_out_of_the_folder(store: DirectoryStore, tmp_path: Path, key: str) -> None:
    store.put("x", b"1")
    (tmp_path / "a").write_bytes(b"outside")
    for call in (store.get, store.delete, lambda name: store.put(name, b"2")):
        with pytest.raises(Unsupported, match="cannot be the path"):
            call(key)
    assert (tmp_path / "a").read_bytes() == b"outside"


def test_no_link_leads_out_of_the_folder(store: DirectoryStore, tmp_path: Path) -> None:
    """A folder may come from somebody else, links and all."""
    store.put("x", b"1")
    outside = tmp_path / "outside"
    (outside / "below").mkdir(parents=True)
    (outside / "secret").write_bytes(b"secret")
    root = tmp_path / "bucket"
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    (root / "dangling").symlink_to(outside / "new")
    for key in ("folder/secret", "folder/below/new", "file", "dangling"):
        for call in (store.get, store.delete, lambda name: store.put(name, b"2")):
            with pytest.raises(Unsupported, match="it goes through a link"):
                call(key)
    assert files(outside) == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"
    for prefix in ("", "folder/", "file", "d"):
        assert [info.key for info in store.list(prefix)] == (["x"] if not prefix else [])


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = DirectoryStore(tmp_path / "link")
    store.put("a/b", b"1")
    assert store.get("a/b").body == b"1"
    assert [info.key for info in store.list("a/")] == ["a/b"]


@pytest.mark.parametrize("prefix", ["../", "../a", "/", "//", "a/../../"])
def test_no_prefix_leads_out_of_the_folder(
    store: DirectoryStore, tmp_path: Path, prefix: str
) -> None:
    store.put("x", b"1")
    (tmp_path / "a").write_bytes(b"outside")
    assert list(store.list(prefix)) == []


@pytest.mark.parametrize("key", ["a/b", "a/b/c/d"])
def test_an_object_cannot_be_a_folder_as_well(store: DirectoryStore, key: str) -> None:
    store.put("a/b/c", b"1")
    with pytest.raises(Unsupported, match=key):
        store.put(key, b"2")
    assert [info.key for info in store.list("")] == ["a/b/c"]


def test_a_part_too_long_for_a_file_is_refused(store: DirectoryStore) -> None:
    store.put("a", b"1")
    for call in (store.get, store.delete, lambda key: store.put(key, b"1")):
        with pytest.raises(Unsupported, match="too long"):
            call("x" * 300)


def test_a_key_that_vanishes_during_a_listing_is_left_out(
    store: DirectoryStore, tmp_path: Path
) -> None:
    for key in ("a", "b", "c"):
        store.put(key, b"1")
    listing = store.list("")
    assert next(listing).key == "a"
    (tmp_path / "bucket/b").unlink()
    assert [info.key for info in listing] == ["c"]


part = st.text(st.sampled_from("ab.-_0é\uff5a\U0001f600"), min_size=1, max_size=3).filter(
    lambda text: text not in (".", "..")
)
depth_two = st.tuples(part, part).map(lambda parts: f"d{parts[0]}/{parts[1]}")


@settings(max_examples=40)  # each example writes and syncs a folder of files
@given(keys=st.sets(part.map(lambda text: f"f{text}") | depth_two), prefix=part | st.just(""))
def test_it_lists_as_any_store_does(
    tmp_path_factory: pytest.TempPathFactory, keys: set[str], prefix: str
) -> None:
    folder = DirectoryStore(tmp_path_factory.mktemp("bucket"))
    memory = FakeStore()
    for store in (folder, memory):
        for key in keys:
            store.put(key, key.encode())
    for asked in ("", "d", f"d{prefix}", f"f{prefix}"):
        assert [(info.key, info.size_bytes) for info in folder.list(asked)] == [
            (info.key, info.size_bytes) for info in memory.list(asked)
        ]


def increment(root: Path, times: int) -> None:
    store = DirectoryStore(root)
    for _ in range(times):
        while True:
            found = store.get("counter")
            try:
                store.put("counter", str(int(found.body) + 1).encode(), only_if=found.etag)
            except ConditionFailed:
                continue
            break


def test_conditions_hold_between_processes(store: DirectoryStore, tmp_path: Path) -> None:
    store.put("counter", b"0")
    context = multiprocessing.get_context("spawn")  # a fork beside threads is deprecated
    workers = [context.Process(target=increment, args=(tmp_path / "bucket", 40)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert store.get("counter").body == b"80"
