"""A data set enters the bucket: shards first, each named by its content, the manifest last.

Not the reading of files (``spotgrad.cli.source``), not the cut (``planning.sharding``). Invariant:
a manifest names only shards that are in place, so a data set is whole or absent. Pushing the same
content again writes nothing; pushing after an interruption writes what is missing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from spotgrad.errors import ConditionFailed, NotFound
from spotgrad.planning.sharding import (
    TRAIN,
    Arrays,
    assign,
    columns_of,
    label_histogram,
    samples_of,
    shard_count,
)
from spotgrad.ports import ABSENT, Absent, ObjectReader, ObjectStore
from spotgrad.protocol.dataset import DatasetManifest, Shard, Split
from spotgrad.protocol.keys import ManifestKey, ShardKey
from spotgrad.protocol.result import HEADER
from spotgrad.protocol.tensors import digest, encode

__all__ = ["Layout", "Pushed", "ShardPushed", "push_dataset"]

_METADATA: Final = {HEADER: '{"schema":1}'}  # it stands in every header
_SHA256_HEAD: Final = 16


@dataclass(frozen=True)
class Layout:
    """Into how many shards ``train`` is cut, and the seed of the shuffle (None: in order)."""

    train_shards: int = 16
    seed: int | None = 0


@dataclass(frozen=True)
class ShardPushed:
    """One more shard is in place: ``done`` of ``total``."""

    done: int
    total: int
    shard: Shard


@dataclass(frozen=True)
class Pushed:
    """The data set as it now lies in the bucket, and how much of it was new."""

    manifest: DatasetManifest
    uploaded_shards: int
    changed: bool


Tell = Callable[[ShardPushed], None]


def push_dataset(
    store: ObjectStore,
    dataset: str,
    splits: Mapping[str, Arrays],
    layout: Layout,
    tell: Tell = lambda _: None,
) -> Pushed:
    """Cut ``splits`` into shards, upload those that are missing, then commit the manifest.

    Shards are numbered through all splits, ``train`` first; ``tell`` is called once for each.

    Raises:
        InvalidJob: the arrays do not make a data set; nothing has been written.
        ConditionFailed: somebody else pushed this data set meanwhile.
    """
    key = ManifestKey(dataset).render()
    columns = columns_of(splits)
    counts = _shard_counts(splits, layout.train_shards)
    present, only_if = _find(store, key)
    upload = _Upload(store, dataset, total=sum(counts.values()), tell=tell)
    manifest = DatasetManifest(
        dataset=dataset,
        columns=columns,
        splits={
            split: Split(shards=upload.split(splits[split], count, layout.seed))
            for split, count in counts.items()
        },
    )
    body = manifest.to_json()
    if body != present:
        _commit(store, key, body, only_if)
    return Pushed(manifest, upload.uploaded, changed=body != present)


def _shard_counts(splits: Mapping[str, Arrays], train_shards: int) -> dict[str, int]:
    """Return the number of shards by split, ``train`` first and the others by name."""
    order = sorted(splits, key=lambda split: (split != TRAIN, split))
    return {
        split: shard_count(split, samples_of(split, splits[split]), train_shards) for split in order
    }


class _Upload:
    """The shards of one push, numbered as they come."""

    def __init__(self, store: ObjectStore, dataset: str, *, total: int, tell: Tell) -> None:
        self._store = store
        self._dataset = dataset
        self._total = total
        self._tell = tell
        self._done = 0
        self.uploaded = 0

    def split(self, arrays: Arrays, shards: int, seed: int | None) -> tuple[Shard, ...]:
        """Put every shard of a split in place, one in memory at a time."""
        samples = len(next(iter(arrays.values())))
        return tuple(
            self._shard({name: array[rows] for name, array in arrays.items()}, len(rows))
            for rows in assign(samples, shards, seed)
        )

    def _shard(self, arrays: Arrays, samples: int) -> Shard:
        body = encode(arrays, _METADATA)
        sha256 = digest(body)
        shard = Shard(
            key=ShardKey(self._dataset, self._done, sha256[:_SHA256_HEAD]).render(),
            samples=samples,
            size_bytes=len(body),
            sha256=sha256,
            label_histogram=label_histogram(arrays),
        )
        self.uploaded += _put_once(self._store, shard.key, body)
        self._done += 1
        self._tell(ShardPushed(self._done, self._total, shard))
        return shard


def _put_once(store: ObjectStore, key: str, body: bytes) -> bool:
    """Write a content-addressed object unless it is there; return whether it was written."""
    if _holds(store, key, len(body)):
        return False
    try:
        store.put(key, body, only_if=ABSENT)
    except ConditionFailed:
        # 409 says only that another write is in progress: it may yet fail.
        if _holds(store, key, len(body)):
            return False
        raise
    return True


def _holds(store: ObjectReader, key: str, size_bytes: int) -> bool:
    return any(info.key == key and info.size_bytes == size_bytes for info in store.list(key))


def _find(store: ObjectReader, key: str) -> tuple[bytes | None, Absent | str]:
    """Return the present manifest's bytes and the condition under which it may be replaced."""
    try:
        found = store.get(key)
    except NotFound:
        return None, ABSENT
    return found.body, found.etag


def _commit(store: ObjectStore, key: str, body: bytes, only_if: Absent | str) -> None:
    try:
        store.put(key, body, only_if=only_if)
    except ConditionFailed as error:
        # A repeated PUT whose first answer was lost loses against itself.
        if _find(store, key)[0] != body:
            raise ConditionFailed(
                f"{key}: somebody else pushed this data set meanwhile; push it again"
            ) from error
