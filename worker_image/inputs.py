"""What a subtask needs from the bucket: head, plan, model version, shard, code; each verified.

Not a decision and not torch. Invariant: no byte is used whose digest is not the one that the head,
the manifest or the plan names. A model that is damaged or gone is a ``Retry`` (the head may have
moved on); a shard or code bundle that is damaged is the user's to mend, hence a ``Reject``.
"""

from dataclasses import dataclass

from spotgrad.errors import Malformed, NotFound, StoreUnavailable
from spotgrad.planning.standing import fault_of
from spotgrad.ports import ObjectReader
from spotgrad.protocol.dataset import DatasetManifest, Shard
from spotgrad.protocol.head import Head, WorkItem
from spotgrad.protocol.keys import HeadKey, ShardKey, SpecKey
from spotgrad.protocol.partial import Partial
from spotgrad.protocol.plan import CodeRef, JobPlan
from spotgrad.protocol.result import ModelMetadata
from spotgrad.protocol.subtask import ModelRef, Subtask
from spotgrad.protocol.tensors import TensorFile, decode, digest
from worker_image.cache import Cache
from worker_image.partials import furthest

__all__ = ["Inputs", "Model", "key_of"]

SERVER = "server"


@dataclass(frozen=True)
class Model:
    """One committed version: its parameters and what its header says."""

    metadata: ModelMetadata
    file: TensorFile


class Inputs:
    """Reads through caches: shards and code by digest, the plan by run, the latest model by key."""

    def __init__(self, store: ObjectReader, cache: Cache) -> None:
        self._store = store
        self._cache = cache
        self._plan: JobPlan | None = None
        self._model: tuple[str, Model] | None = None

    def head(self, job: str) -> Head:
        """Return the job's head as it is now; raises ``NotFound`` when there is none."""
        return Head.from_json(self._store.get(HeadKey(job).render()).body)

    def plan(self, head: Head) -> JobPlan:
        """Return the job as planned for the head's run.

        Raises:
            StoreUnavailable: the job is being replaced right now: plan and head do not match.
        """
        if self._plan is None or self._plan.run != head.run:
            key = SpecKey(head.job).render()
            plan = JobPlan.from_json(self._store.get(key).body)
            if plan.run != head.run:
                raise StoreUnavailable(f"{key} is of run {plan.run}, the head of run {head.run}")
            self._plan = plan
        return self._plan

    def model(self, head: Head, wanted: ModelRef) -> Model:
        """Return a committed version; the last one asked for is kept.

        Raises:
            StoreUnavailable: its object is gone, damaged or of another version: ask the head again.
        """
        if self._model is None or self._model[0] != wanted.key:
            self._model = None  # two large models need not be in memory at once
            self._model = (wanted.key, self._read_model(head, wanted))
        return self._model[1]

    def shard(self, manifest: DatasetManifest, split: str, number: int) -> TensorFile:
        """Return one shard's columns, ``samples`` rows each.

        Raises:
            NotFound, Malformed: the shard is missing, damaged or not what the manifest promises.
        """
        shard = _shard_of(manifest, split, number)
        file = decode(self._content(shard.key, shard.sha256))
        for column in manifest.columns:
            expected = ((shard.samples, *column.shape), column.dtype)
            array = file.tensors.get(column.name)
            found = None if array is None else (array.shape, str(array.dtype))
            if found != expected:
                raise Malformed(
                    f"{shard.key}: column {column.name!r} is {found}, the manifest says {expected}"
                )
        return file

    def partial(self, head: Head, subtask: Subtask) -> Partial | None:
        """Return what an interrupted attempt at this subtask left to go on from."""
        fault = fault_of(head, WorkItem(epoch=subtask.epoch, subtask=subtask.subtask))
        mishaps = (*fault.forgiven, *fault.refused, *fault.failed)
        return furthest(self._store, self.plan(head), subtask, mishaps)

    def code(self, ref: CodeRef) -> bytes:
        """Return the user's code bundle."""
        return self._content(ref.key, ref.sha256)

    def _content(self, key: str, sha256: str) -> bytes:
        kept = self._cache.get(sha256)
        if kept is not None and digest(kept) == sha256:
            return kept
        body = self._verified(key, sha256)
        self._cache.put(sha256, body)
        return body

    def _verified(self, key: str, sha256: str) -> bytes:
        for _ in range(2):  # the wire may have damaged the first copy
            body = self._store.get(key).body
            if digest(body) == sha256:
                return body
        raise Malformed(f"{key}: {len(body)} bytes, their SHA-256 is not {sha256}: upload it again")

    def _read_model(self, head: Head, wanted: ModelRef) -> Model:
        latest = head.objects.get(SERVER)
        try:
            if latest is not None and latest.key == wanted.key:
                file = decode(self._verified(wanted.key, latest.sha256))
            else:  # an older version, under evaluation: its header has to do
                file = decode(self._store.get(wanted.key).body)
            metadata = ModelMetadata.from_header(file.metadata)
        except (Malformed, NotFound) as error:
            raise StoreUnavailable(f"model {wanted.key} cannot be used: {error}") from error
        found = (metadata.run, metadata.version, metadata.commit)
        if found != (head.run, wanted.version, wanted.commit):
            raise StoreUnavailable(f"model {wanted.key}: its header says {found}")
        return Model(metadata, file)


def key_of(manifest: DatasetManifest, split: str, number: int) -> str:
    """Return the key of a shard; raises ``Malformed`` when there is none."""
    return _shard_of(manifest, split, number).key


def _shard_of(manifest: DatasetManifest, split: str, number: int) -> Shard:
    if split not in manifest.splits:
        raise Malformed(f"data set {manifest.dataset!r} has no split {split!r}")
    shards = manifest.splits[split].shards
    if number >= len(shards):
        raise Malformed(f"split {split!r} has {len(shards)} shards, there is no {number}")
    shard = shards[number]
    if ShardKey.parse(shard.key).dataset != manifest.dataset:
        raise Malformed(f"shard {shard.key!r} does not belong to data set {manifest.dataset!r}")
    return shard
