from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from spotgrad.errors import ConditionFailed, InvalidJob, Malformed, StoreUnavailable
from spotgrad.ports import ABSENT
from spotgrad.protocol.dataset import DatasetManifest
from spotgrad.protocol.tensors import decode, digest
from spotgrad.steps.push_dataset import Layout, ShardPushed, push_dataset
from tests.fakes.faults import Fault
from tests.fakes.store import FakeStore, Write

MANIFEST = "datasets/digits/manifest.json"
LAYOUT = Layout(train_shards=3, seed=0)


def arrays(samples: int, first: int = 0) -> dict[str, NDArray[Any]]:
    numbers = np.arange(first, first + samples)
    return {"x": numbers.astype(np.float32).reshape(samples, 1), "y": numbers % 2}


SPLITS = {"validation": arrays(4, 10), "train": arrays(10)}


def test_the_manifest_names_shards_that_hold_every_sample_once() -> None:
    store = FakeStore()
    pushed = push_dataset(store, "digits", SPLITS, LAYOUT)
    manifest = DatasetManifest.from_json(store.get(MANIFEST).body)
    assert manifest == pushed.manifest
    assert (pushed.changed, pushed.uploaded_shards) == (True, 4)
    assert list(manifest.splits) == ["train", "validation"]
    assert [column.name for column in manifest.columns] == ["x", "y"]
    for split, expected in (("train", range(10)), ("validation", range(10, 14))):
        seen: list[float] = []
        for shard in manifest.splits[split].shards:
            body = store.get(shard.key).body
            tensors = decode(body).tensors
            assert (digest(body), len(body)) == (shard.sha256, shard.size_bytes)
            assert shard.samples == len(tensors["y"]) == sum(shard.label_histogram.values())
            assert (tensors["y"] == tensors["x"][:, 0] % 2).all()
            seen += tensors["x"][:, 0].tolist()
        assert sorted(seen) == list(expected)


def test_shards_are_named_by_number_and_content_through_all_splits() -> None:
    shards = push_dataset(FakeStore(), "digits", SPLITS, LAYOUT).manifest.splits
    keys = [shard.key for split in ("train", "validation") for shard in shards[split].shards]
    digests = [shard.sha256[:16] for split in shards.values() for shard in split.shards]
    assert keys == [
        f"datasets/digits/{number:06d}-{head}.safetensors" for number, head in enumerate(digests)
    ]


def test_a_shard_carries_the_schema_in_its_header() -> None:
    store = FakeStore()
    shard = push_dataset(store, "digits", SPLITS, LAYOUT).manifest.splits["train"].shards[0]
    assert decode(store.get(shard.key).body).metadata == {"spotgrad": '{"schema":1}'}


def test_the_manifest_is_written_last() -> None:
    store, writes = FakeStore(), list[str]()
    store.on_write = lambda write: writes.append(write.key)
    push_dataset(store, "digits", SPLITS, LAYOUT)
    assert writes[-1] == MANIFEST
    assert writes.count(MANIFEST) == 2  # before and after


def test_pushing_the_same_again_writes_nothing() -> None:
    store = FakeStore()
    push_dataset(store, "digits", SPLITS, LAYOUT)
    before = store.calls["put"]
    again = push_dataset(store, "digits", SPLITS, LAYOUT)
    assert (again.changed, again.uploaded_shards) == (False, 0)
    assert store.calls["put"] == before


def test_after_an_interruption_only_what_is_missing_is_uploaded() -> None:
    store = FakeStore()
    first = push_dataset(store, "digits", SPLITS, LAYOUT)
    store.delete(MANIFEST)
    store.delete(first.manifest.splits["train"].shards[1].key)
    again = push_dataset(store, "digits", SPLITS, LAYOUT)
    assert (again.changed, again.uploaded_shards) == (True, 1)
    assert again.manifest == first.manifest


def test_other_content_replaces_the_manifest_and_leaves_the_old_shards() -> None:
    store = FakeStore()
    old = push_dataset(store, "digits", SPLITS, LAYOUT).manifest
    new = push_dataset(store, "digits", SPLITS, Layout(train_shards=3, seed=None)).manifest
    assert store.get(MANIFEST).body == new.to_json() != old.to_json()
    assert all(shard.key in store.snapshot() for shard in old.splits["train"].shards)
    first = decode(store.get(new.splits["train"].shards[0].key).body).tensors["x"]
    assert first[:, 0].tolist() == [0, 1, 2, 3]


def test_progress_is_told_once_per_shard() -> None:
    told: list[ShardPushed] = []
    manifest = push_dataset(FakeStore(), "digits", SPLITS, LAYOUT, told.append).manifest
    assert [(step.done, step.total) for step in told] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert told[-1].shard == manifest.splits["validation"].shards[0]


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"train": arrays(2)}, "2 samples in split 'train' cannot fill 3 shards"),
        ({"train": arrays(3), "validation": arrays(0)}, "split 'validation' is empty"),
        ({"validation": arrays(3)}, "no split 'train'"),
    ],
)
def test_what_is_no_data_set_leaves_the_bucket_untouched(
    splits: dict[str, dict[str, NDArray[Any]]], message: str
) -> None:
    store = FakeStore()
    with pytest.raises(InvalidJob, match=message):
        push_dataset(store, "digits", splits, LAYOUT)
    assert store.snapshot() == {}


def test_a_name_outside_the_grammar_is_refused() -> None:
    with pytest.raises(Malformed, match="dataset 'No Name'"):
        push_dataset(FakeStore(), "No Name", SPLITS, LAYOUT)


def first_shard_key() -> str:
    return (
        push_dataset(FakeStore(), "digits", SPLITS, LAYOUT).manifest.splits["train"].shards[0].key
    )


def test_a_shard_that_another_push_writes_meanwhile_is_taken_as_it_is() -> None:
    other, store = FakeStore(), FakeStore()
    push_dataset(other, "digits", SPLITS, LAYOUT)
    key = first_shard_key()

    def racer(write: Write) -> None:
        if (write.moment, write.key) == ("before", key):
            store.on_write = None
            store.put(key, other.get(key).body)

    store.on_write = racer
    pushed = push_dataset(store, "digits", SPLITS, LAYOUT)
    assert (pushed.changed, pushed.uploaded_shards) == (True, 3)


def test_a_conflict_that_leaves_no_shard_is_not_taken_for_success() -> None:
    store = FakeStore()
    store.faults.order(Fault.CONFLICT, key=first_shard_key())
    with pytest.raises(ConditionFailed, match="409"):
        push_dataset(store, "digits", SPLITS, LAYOUT)
    assert store.snapshot() == {}


def test_a_manifest_that_somebody_else_commits_meanwhile_is_not_overwritten() -> None:
    store = FakeStore()

    def racer(write: Write) -> None:
        if (write.moment, write.key) == ("before", MANIFEST):
            store.on_write = None
            store.put(MANIFEST, b"theirs", only_if=ABSENT)

    store.on_write = racer
    with pytest.raises(ConditionFailed, match="somebody else pushed this data set meanwhile"):
        push_dataset(store, "digits", SPLITS, LAYOUT)
    assert store.get(MANIFEST).body == b"theirs"


def test_losing_to_the_same_manifest_is_no_loss() -> None:
    expected = push_dataset(FakeStore(), "digits", SPLITS, LAYOUT).manifest
    store = FakeStore()

    def repeated(write: Write) -> None:
        if (write.moment, write.key) == ("before", MANIFEST):
            store.on_write = None
            store.put(MANIFEST, expected.to_json(), only_if=ABSENT)

    store.on_write = repeated
    assert push_dataset(store, "digits", SPLITS, LAYOUT).manifest == expected


def test_an_unavailable_store_passes_through() -> None:
    store = FakeStore()
    store.faults.order(Fault.UNAVAILABLE, operation="put", key=MANIFEST)
    with pytest.raises(StoreUnavailable):
        push_dataset(store, "digits", SPLITS, LAYOUT)
    assert MANIFEST not in store.snapshot()
