import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from spotgrad.errors import AccessDenied, StoreUnavailable
from spotgrad.settings import WorkerSettings
from tests.worker_image.metadata_server import ACTION, serving
from tests.worker_image.world import FakeStop, World
from worker_image import main
from worker_image.assignment import Options
from worker_image.cache import FolderCache, MemoryCache
from worker_image.exit_codes import BadDisk, BadGpu


@pytest.fixture
def stop() -> Iterator[FakeStop]:
    made = FakeStop()
    yield made
    made.close()


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTGRAD_BUCKET", "bucket")
    monkeypatch.setenv("SPOTGRAD_SUBTASKS_QUEUE_URL", "http://127.0.0.1:1/queue")
    monkeypatch.setenv("SPOTGRAD_LEASE_SECONDS", "33")
    monkeypatch.setenv("SPOTGRAD_WORKER_NAME", "w-7")


class Ending:
    """A worker that ends at once, the way a test wants."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def run(self) -> None:
        if self._error is not None:
            raise self._error


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, 0),
        (StoreUnavailable("503 for ever"), 75),
        (AccessDenied("not for you"), 65),
        (BadGpu("no GPU"), 81),
        (BadDisk("no room"), 82),
    ],
)
def test_exit_codes_say_what_to_do(
    stop: FakeStop,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception | None,
    code: int,
) -> None:
    seen: list[Options] = []

    def compose(_settings: WorkerSettings, options: Options, *_: Any) -> Ending:
        seen.append(options)
        return Ending(error)

    monkeypatch.setattr(main, "_compose", compose)
    assert main.run(stop, until_idle_seconds=1.5, slow_seconds=2.5) == code
    assert seen == [Options("w-7", 33, 1.5, 2.5, notice_seconds=90)]
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == (error is not None)
    assert all(str(error) in line for line in errors)


def test_a_missing_setting_is_named(stop: FakeStop, caplog: pytest.LogCaptureFixture) -> None:
    assert main.run(stop, until_idle_seconds=None, slow_seconds=0) == 65
    assert "SPOTGRAD_BUCKET" in caplog.text


@pytest.mark.usefixtures("settings")
def test_a_worker_that_is_asked_to_stop_while_it_starts_ends_well(stop: FakeStop) -> None:
    stop.request()
    assert main.run(stop, until_idle_seconds=None, slow_seconds=0) == 0


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    ("setting", "text", "code"),
    [("GPUS", "1", 81), ("FREE_DISK_BYTES", str(1 << 60), 82)],
)
def test_a_bad_host_receives_nothing(
    stop: FakeStop,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    text: str,
    code: int,
) -> None:
    monkeypatch.setenv(f"SPOTGRAD_{setting}", text)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(main, "_ports", lambda _: world.ports())
    world.send("train-000000")
    assert main.run(stop, until_idle_seconds=None, slow_seconds=0) == code
    assert world.queue.calls["receive"] == 0
    assert (world.queue.in_flight(), len(world.queue.bodies())) == (0, 1)


@pytest.mark.usefixtures("settings")
def test_a_good_host_works(stop: FakeStop, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTGRAD_FREE_DISK_BYTES", "0")
    monkeypatch.setattr(main, "_ports", lambda _: world.ports())
    world.send("train-000000")
    assert main.run(stop, until_idle_seconds=0, slow_seconds=0) == 0
    assert len(world.results()) == 1


@pytest.mark.usefixtures("settings")
def test_a_notice_of_the_machine_reaches_the_worker(
    stop: FakeStop, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as metadata:
        metadata.answers[ACTION] = '{"action": "terminate"}'
        monkeypatch.setenv("SPOTGRAD_FREE_DISK_BYTES", "0")
        monkeypatch.setenv("SPOTGRAD_METADATA_ENDPOINT", metadata.url)
        monkeypatch.setattr(main, "_ports", lambda _: world.ports())
        assert main.run(stop, until_idle_seconds=None, slow_seconds=0) == 0
    assert stop.notices == [0.0]
    assert not [thread for thread in threading.enumerate() if thread.name == "notices"]


def test_the_cache_is_a_folder_when_there_is_one(tmp_path: Path) -> None:
    without = WorkerSettings(bucket="bucket", subtasks_queue_url="q")
    assert isinstance(main._cache(without), MemoryCache)
    with_folder = without.model_copy(update={"cache_directory": str(tmp_path)})
    assert isinstance(main._cache(with_folder), FolderCache)


@pytest.mark.parametrize("folder", [True, False])
def test_the_cache_has_the_limit_of_the_settings(tmp_path: Path, folder: bool) -> None:  # noqa: FBT001 - a parameter of the test
    settings = WorkerSettings(
        bucket="bucket",
        subtasks_queue_url="q",
        cache_bytes=10,
        cache_directory=str(tmp_path) if folder else None,
    )
    cache = main._cache(settings)
    for number in range(9):
        cache.put(f"{number}", bytes(4))
    assert [number for number in range(9) if cache.get(f"{number}")] == [7, 8]
