"""A small planned job and its documents, for tests that read a bucket."""

from typing import Any

from spotgrad.ports import ObjectStore
from spotgrad.protocol.attempt import Attempt
from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.dataset import Column, DatasetManifest, Shard, Split
from spotgrad.protocol.head import EpochProgress, Head
from spotgrad.protocol.job import JobSpec
from spotgrad.protocol.job_file import parse_job_file
from spotgrad.protocol.keys import HeadKey, JobFileKey, LedgerKey, ManifestKey, SpecKey
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.subtask import ModelRef
from spotgrad.protocol.tensors import digest
from tests.fakes.clock import START

JOB = "digits-cnn"
RUN = "00000000000000aa"
JOB_FILE = b"name: digits-cnn\ntask: digits_task:Digits\ndataset: digits\nepochs: 3\n"
SHARDS = 4


def spec(job_file: bytes = JOB_FILE) -> JobSpec:
    return parse_job_file(job_file)


def split(shards: int, first: int = 0) -> Split:
    return Split(
        shards=tuple(
            Shard(
                key=f"datasets/digits/{first + number:06d}-{'0' * 16}.safetensors",
                samples=10,
                size_bytes=100,
                sha256="0" * 64,
            )
            for number in range(shards)
        )
    )


def manifest(**splits: Split) -> DatasetManifest:
    return DatasetManifest(
        dataset="digits",
        columns=(Column(name="x", dtype="float32", shape=(64,)),),
        splits=splits or {"train": split(SHARDS), "validation": split(1, SHARDS)},
    )


def plan(**changes: Any) -> JobPlan:
    made = JobPlan(
        run=RUN, job_file_sha256=digest(JOB_FILE), spec=spec(), manifest=manifest(), code=None
    )
    return made.model_copy(update=changes)


def model(version: int) -> ModelRef:
    commit = f"{version:016x}"
    return ModelRef(
        version=version,
        commit=commit,
        key=f"models/{JOB}/{version:08d}-{commit}/server.safetensors",
    )


def epoch(number: int, **sets: list[int]) -> EpochProgress:
    return EpochProgress(
        epoch=number,
        subtasks=SHARDS if number else 1,
        issued_at=START,
        **{name: Bitmap.of(members) for name, members in sets.items()},
    )


def head(**changes: Any) -> Head:
    made = Head(
        job=JOB,
        run=RUN,
        revision=0,
        commit=RUN,
        ledger=LedgerKey(JOB, 0, RUN).render(),
        state="RUNNING",
        epochs=(epoch(1, issued=[0, 1, 2, 3]),),
        started_at=START,
        updated_at=START,
    )
    return made.model_copy(update=changes)


def attempt(**changes: Any) -> Attempt:
    made = Attempt(
        job=JOB,
        run=RUN,
        epoch=1,
        subtask="train-000000",
        attempt="0" * 16,
        worker="worker-a",
        base=None,
        started_at=START,
        beat_at=START,
    )
    return made.model_copy(update=changes)


def put_manifest(store: ObjectStore) -> None:
    store.put(ManifestKey("digits").render(), manifest().to_json())


def put_job(store: ObjectStore, present: Head, planned: JobPlan | None = None) -> None:
    """A job as planning and aggregation leave it."""
    put_manifest(store)
    store.put(JobFileKey(JOB).render(), JOB_FILE)
    store.put(SpecKey(JOB).render(), (planned or plan()).to_json())
    store.put(HeadKey(JOB).render(), present.to_json())
