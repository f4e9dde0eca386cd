import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from spotgrad.errors import StoreUnavailable
from spotgrad.settings import WorkerSettings
from tests.fakes.faults import Fault
from tests.fakes.queue import FakeQueue
from tests.fakes.store import FakeStore
from worker_image.exit_codes import BadDisk, BadGpu
from worker_image.probe import check_gpus, probe

SETTINGS = WorkerSettings(bucket="bucket", subtasks_queue_url="q", free_disk_bytes=0)


def cuda(count: int, *, available: bool = True) -> Any:
    return SimpleNamespace(is_available=lambda: available, device_count=lambda: count)


def test_a_good_host_is_asked_and_left_as_it_was() -> None:
    store, queue = FakeStore(), FakeQueue()
    queue.send(["body"])
    probe(store, queue, SETTINGS)
    assert store.snapshot() == {}
    assert (queue.calls["receive"], queue.calls["depth"]) == (0, 1)


@pytest.mark.parametrize("found", [cuda(0), cuda(1), cuda(8, available=False)])
def test_gpus_that_are_missing_are_counted(found: Any) -> None:
    with pytest.raises(BadGpu, match=r"SPOTGRAD_GPUS is 2, but torch sees [01]: use another"):
        check_gpus(2, found)


def test_a_gpu_must_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    check_gpus(2, cuda(2), device="cpu")

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("CUDA error: no kernel image\nsecond line")

    monkeypatch.setattr(torch, "arange", broken)
    with pytest.raises(BadGpu, match="does not compute: CUDA error: no kernel image: use another"):
        check_gpus(1, cuda(1))


def test_a_gpu_must_compute_correctly(monkeypatch: pytest.MonkeyPatch) -> None:
    ones = torch.ones
    monkeypatch.setattr(torch, "arange", lambda count, **_: ones(count))
    with pytest.raises(BadGpu, match=r"0 \+ 1 \+ 2 \+ 3 is 4"):
        check_gpus(1, cuda(1), device="cpu")


def test_a_disk_without_room_is_a_bad_host(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    free = shutil.disk_usage(tmp_path).free
    changes = {"cache_directory": str(folder), "free_disk_bytes": 2 * free}
    with pytest.raises(BadDisk, match=r"SPOTGRAD_FREE_DISK_BYTES asks for [\d,]+: use another"):
        probe(FakeStore(), FakeQueue(), SETTINGS.model_copy(update=changes))


def test_a_cache_that_cannot_be_made_is_a_bad_host(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    changes = {"cache_directory": str(tmp_path / "file" / "cache")}
    with pytest.raises(BadDisk, match="Not a directory"):
        probe(FakeStore(), FakeQueue(), SETTINGS.model_copy(update=changes))


@pytest.mark.parametrize("which", ["store", "queue"])
def test_bucket_and_queue_must_be_within_reach(which: str) -> None:
    store, queue = FakeStore(), FakeQueue()
    (store if which == "store" else queue).faults.order(Fault.UNAVAILABLE)
    with pytest.raises(StoreUnavailable):
        probe(store, queue, SETTINGS)
    assert queue.calls["receive"] == 0
