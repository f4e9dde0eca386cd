import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spotgrad.errors import AccessDenied, StoreUnavailable
from spotgrad.settings import WorkerSettings
from tests.worker_image.world import FakeStop
from worker_image import main
from worker_image.assignment import Options
from worker_image.cache import FolderCache, MemoryCache


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
    [(None, 0), (StoreUnavailable("503 for ever"), 75), (AccessDenied("not for you"), 65)],
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


def test_the_cache_is_a_folder_when_there_is_one(tmp_path: Path) -> None:
    without = WorkerSettings(bucket="bucket", subtasks_queue_url="q")
    assert isinstance(main._cache(without), MemoryCache)
    with_folder = without.model_copy(update={"cache_directory": str(tmp_path)})
    assert isinstance(main._cache(with_folder), FolderCache)
