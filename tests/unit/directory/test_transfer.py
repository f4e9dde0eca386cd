from pathlib import Path

import pytest

from spotgrad.directory.store import DirectoryStore
from spotgrad.directory.transfer import copy_all
from spotgrad.errors import StoreUnavailable
from tests.fakes.faults import Fault
from tests.fakes.store import FakeStore


def filled(count: int = 20) -> FakeStore:
    store = FakeStore()
    for number in range(count):
        store.put(f"models/digits/{number:08}/server.safetensors", bytes([number]) * number)
    store.put("state/digits/head.json", b"{}")
    return store


def test_a_bucket_goes_to_a_folder_and_comes_back_the_same(tmp_path: Path) -> None:
    source = filled()
    folder = DirectoryStore(tmp_path / "bucket")
    assert copy_all(source, folder) == 21
    back = FakeStore()
    assert copy_all(folder, back) == 21
    assert back.snapshot() == source.snapshot()


def test_only_the_prefix_is_copied_over_what_is_there() -> None:
    target = FakeStore()
    target.put("state/digits/head.json", b"old")
    target.put("other", b"stays")
    assert copy_all(filled(), target, prefix="state/") == 1
    assert target.snapshot() == {"other": b"stays", "state/digits/head.json": b"{}"}


def test_copying_nothing_is_no_error() -> None:
    assert copy_all(FakeStore(), FakeStore()) == 0


@pytest.mark.parametrize("operation", ["get", "put", "list"])
def test_a_failure_on_either_side_is_not_swallowed(operation: str) -> None:
    source, target = filled(), FakeStore()
    broken = target if operation == "put" else source
    broken.faults.order(Fault.UNAVAILABLE, operation=operation)
    with pytest.raises(StoreUnavailable, match=operation):
        copy_all(source, target)
