import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.local.home import Home
from spotgrad.cli.main import main
from spotgrad.directory.store import DirectoryStore
from spotgrad.errors import InvalidJob, SpotgradError
from spotgrad.ports import ObjectInfo, StoredObject
from spotgrad.protocol.keys import HeadKey, JobFileKey
from tests.builders import JOB, Bench, train
from tests.fakes.store import FakeStore

FLAGS: list[dict[str, bool]] = [
    {"resume": False, "fresh": False},
    {"resume": False, "fresh": True},
]
PLAIN, RESUME, FRESH = (
    {"resume": False, "fresh": False},
    {"resume": True, "fresh": False},
    {"resume": False, "fresh": True},
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(JOB, tmp_path / "root")


@pytest.fixture
def running() -> FakeStore:
    bench = Bench()
    bench.start(epochs=1)
    return bench.store


@pytest.fixture
def finished() -> FakeStore:
    bench = Bench()
    bench.start(epochs=1)
    assert bench.finish().state == "SUCCEEDED"
    return bench.store


@pytest.fixture
def degraded() -> Bench:
    """One shard is dead, all else is done."""
    bench = Bench()
    bench.start(epochs=1, retries={"failures": 0, "max_dead": 2})
    bench.aggregate(bench.failed(train(1, 3)))
    assert bench.finish().state == "DEGRADED"
    return bench


def left_by(home: Home, store: FakeStore) -> None:
    """What a run leaves: its bucket, logs and a model."""
    home.save(store)
    home.logs.mkdir()
    (home.logs / "workers.log").write_text("of the last run\n")
    home.model.write_bytes(b"model")


def content(folder: Path) -> dict[str, bytes]:
    store = DirectoryStore(folder)
    return {info.key: store.get(info.key).body for info in store.list("")}


def names(home: Home) -> set[str]:
    return {path.name for path in home.folder.iterdir()}


@pytest.mark.parametrize("flags", FLAGS)
def test_the_first_run_finds_an_empty_folder(home: Home, flags: dict[str, bool]) -> None:
    home.check(**flags)
    assert not home.root.exists()  # checking writes nothing
    home.prepare(**flags)
    assert names(home) == {"logs"}
    assert not home.unfinished


def test_the_folder_is_that_of_the_job_under_the_working_directory() -> None:
    assert Home("a").bucket == Path(".spotgrad/a/bucket")


@pytest.mark.parametrize("flags", FLAGS)
def test_a_finished_run_is_replaced(
    home: Home, finished: FakeStore, flags: dict[str, bool]
) -> None:
    left_by(home, finished)
    assert not home.unfinished
    home.prepare(**flags)
    assert names(home) == {"logs"}
    assert list(home.logs.iterdir()) == []


def test_an_unfinished_run_is_refused_naming_both_flags(home: Home, running: FakeStore) -> None:
    left_by(home, running)
    before = content(home.folder)
    for call in (home.check, home.prepare):
        with pytest.raises(InvalidJob) as refused:
            call(**PLAIN)
        assert str(refused.value) == (
            f"{home.folder} holds an unfinished run of {JOB}: "
            "go on with --resume, or throw it away with --fresh"
        )
    assert content(home.folder) == before


def test_fresh_throws_an_unfinished_run_away(home: Home, running: FakeStore) -> None:
    left_by(home, running)
    home.prepare(**FRESH)
    assert names(home) == {"logs"}


def test_resume_keeps_bucket_and_logs(home: Home, running: FakeStore) -> None:
    left_by(home, running)
    before = content(home.folder)
    home.prepare(**RESUME)
    assert content(home.folder) == before


def refused(home: Home, flags: dict[str, bool]) -> str:
    """Return the one line of both calls, having checked that nothing was changed."""
    before = content(home.folder)
    words = set()
    for call in (home.check, home.prepare):
        with pytest.raises(InvalidJob) as error:
            call(**flags)
        words.add(str(error.value))
    assert content(home.folder) == before
    (line,) = words
    assert "\n" not in line
    return line


def test_resume_needs_a_run(home: Home) -> None:
    words = f"--resume: there is no unfinished run of {JOB} in {home.folder}"
    assert refused(home, RESUME) == words
    assert not home.root.exists()


def test_resume_of_a_run_that_is_over_says_what_to_do(
    home: Home, finished: FakeStore, degraded: Bench
) -> None:
    left_by(home, finished)
    over = f"--resume: the run of {JOB} in {home.folder} is over"
    anew = "leave --resume out to run it anew"
    assert refused(home, RESUME) == f"{over}, SUCCEEDED: {anew}"
    home.save(degraded.store)
    ask = f"spotgrad dlq redrive {JOB} --all --bucket {home.bucket}"
    assert refused(home, RESUME) == (
        f"{over}, DEGRADED: try its 1 dead again with {ask}, or {anew}"
    )
    degraded.tamper(degraded.head.model_copy(update={"state": "CANCELLED"}))
    home.save(degraded.store)
    assert refused(home, RESUME) == f"{over}, CANCELLED: {anew}"


def test_a_run_whose_dead_are_to_be_tried_again_is_unfinished(home: Home, degraded: Bench) -> None:
    home.save(degraded.store)
    assert not home.unfinished
    assert main(["dlq", "redrive", JOB, "--all", "--bucket", str(home.bucket)]) == 0
    assert home.unfinished
    assert "go on with --resume" in refused(home, PLAIN)  # the wish is not thrown away unasked
    home.prepare(**RESUME)
    home.prepare(**FRESH)
    assert names(home) == {"logs"}


def test_a_run_cut_off_before_planning_is_unfinished(home: Home) -> None:
    home.save(FakeStore())
    assert home.unfinished
    bench = Bench()
    bench.upload()
    home.save(bench.store)
    assert home.unfinished
    home.prepare(**RESUME)


def test_a_refused_job_is_finished(home: Home) -> None:
    bench = Bench()
    bench.upload()
    bench.store.put(JobFileKey(JOB).render(), b"name: other\n")
    assert bench.plan().outcome == "refused"
    home.save(bench.store)
    assert not home.unfinished


def test_a_damaged_bucket_is_no_run_to_throw_away_unasked(home: Home, running: FakeStore) -> None:
    running.put(HeadKey(JOB).render(), b"{")
    home.save(running)
    assert home.unfinished
    home.check(**FRESH)


def test_save_and_restore_are_twins(home: Home, running: FakeStore) -> None:
    home.save(running)
    assert content(home.bucket) == running.snapshot()
    target = FakeStore()
    home.restore(target)
    assert target.snapshot() == running.snapshot()


def test_a_later_save_replaces_the_bucket_whole(home: Home) -> None:
    store = FakeStore()
    store.put("old", b"1")
    home.save(store)
    store.delete("old")
    store.put("new", b"2")
    home.save(store)
    assert content(home.bucket) == {"new": b"2"}
    assert names(home) == {"bucket"}


class BreaksOff(FakeStore):
    """Dies at the second object that is read."""

    def get(self, key: str) -> StoredObject:
        if self.calls["get"] >= 1:
            raise SpotgradError("cut off")
        return super().get(key)


def test_a_save_that_breaks_off_leaves_the_old_bucket(home: Home) -> None:
    store, broken = FakeStore(), BreaksOff()
    store.put("old", b"1")
    home.save(store)
    for name in ("a", "b", "c"):
        broken.put(name, b"2")
    with pytest.raises(SpotgradError, match="cut off"):
        home.save(broken)
    assert content(home.bucket) == {"old": b"1"}
    assert content(home.folder / "bucket.new")  # an older crash's rest is in nobody's way
    store.put("new", b"3")
    home.save(store)
    assert content(home.bucket) == {"old": b"1", "new": b"3"}
    assert names(home) == {"bucket"}


class Killed(BaseException):
    """As SIGKILL between two system calls."""


@pytest.mark.parametrize(("survived", "whole"), [(0, b"old"), (1, b"new"), (2, b"new")])
def test_whatever_instant_a_save_is_killed_at_a_whole_bucket_is_found(
    home: Home, monkeypatch: pytest.MonkeyPatch, survived: int, whole: bytes
) -> None:
    """The two renames are the only steps that touch the kept bucket."""
    bench = Bench()
    bench.start(epochs=1)
    bench.store.put("mark", b"old")
    home.save(bench.store)
    bench.store.put("mark", b"new")
    renames: list[Path] = []
    replace, rmtree = Path.replace, shutil.rmtree

    def dying_replace(path: Path, target: Path) -> Path:
        if path.parent == home.folder:
            renames.append(path)
            if len(renames) > survived:
                raise Killed
        return replace(path, target)

    def dying_rmtree(path: Path, **options: Any) -> None:
        if len(renames) == 2:
            raise Killed
        rmtree(path, **options)

    monkeypatch.setattr(Path, "replace", dying_replace)
    monkeypatch.setattr(shutil, "rmtree", dying_rmtree)
    with pytest.raises(Killed):
        home.save(bench.store)
    monkeypatch.setattr(Path, "replace", replace)
    monkeypatch.setattr(shutil, "rmtree", rmtree)
    assert len(renames) == min(survived + 1, 2)

    assert home.unfinished
    target = FakeStore()
    home.restore(target)
    assert target.get("mark").body == whole
    home.prepare(**RESUME)
    assert content(home.bucket)["mark"] == whole
    assert "bucket.old" not in names(home)
    home.save(bench.store)
    assert content(home.bucket)["mark"] == b"new"
    assert names(home) == {"bucket", "logs"}


def test_a_fresh_run_clears_what_a_killed_save_left(home: Home, finished: FakeStore) -> None:
    home.save(finished)
    home.bucket.replace(home.folder / "bucket.old")
    (home.folder / "bucket.new").mkdir()
    (home.folder / "link").symlink_to(home.root)
    home.prepare(**FRESH)
    assert names(home) == {"logs"}
    assert home.root.is_dir()


def test_two_runs_do_not_share_a_folder(home: Home) -> None:
    with home.held():
        home.prepare(**PLAIN)
        with pytest.raises(InvalidJob, match=f"a local run of {JOB} is at work in "), home.held():
            pass
        assert names(home) == {"logs", ".lock"}
    with home.held():
        home.prepare(**PLAIN)  # it does not clear its own lock away
        assert names(home) == {"logs", ".lock"}


def test_the_bucket_is_read_while_objects_come_in(home: Home) -> None:
    """Leaving workers may still add results; what was there when saving began is kept."""

    class Busy(FakeStore):
        def list(self, prefix: str) -> Iterator[ObjectInfo]:
            found = list(super().list(prefix))
            self.put("late", b"2")
            return iter(found)

    store = Busy()
    store.put("early", b"1")
    home.save(store)
    assert content(home.bucket) == {"early": b"1"}
