"""Heads, attempts and buckets in whatever state a reader is to be shown; values, not events."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spotgrad.directory.store import DirectoryStore
from spotgrad.ports import ObjectStore
from spotgrad.protocol.attempt import Attempt
from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.head import EpochProgress, Head
from spotgrad.protocol.keys import HeadKey, JobFileKey, ManifestKey, SpecKey
from spotgrad.protocol.plan import JobPlan
from tests.builders import JOB, RUN, Bench, job_file, job_plan, manifest, planned_head
from tests.fakes.clock import START

SHARDS = 4
EPOCHS = 3
JOB_FILE = job_file(epochs=EPOCHS)


def plan(**changes: Any) -> JobPlan:
    return job_plan(SHARDS, epochs=EPOCHS).model_copy(update=changes)


def epoch(number: int, **sets: Sequence[int]) -> EpochProgress:
    made = EpochProgress(epoch=number, subtasks=SHARDS if number else 1, issued_at=START)
    return made.model_copy(update={name: Bitmap.of(members) for name, members in sets.items()})


def head(**changes: Any) -> Head:
    """A running job, all of epoch 1 out."""
    running = {"state": "RUNNING", "epochs": (epoch(1, issued=range(SHARDS)),), "outbox": ()}
    return planned_head(plan()).model_copy(update=running | changes)


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
    store.put(ManifestKey("digits").render(), manifest(SHARDS).to_json())


def put_job(store: ObjectStore, present: Head, **fields: Any) -> None:
    """A job as planning and aggregation leave it; ``fields`` are of its job file."""
    put_manifest(store)
    store.put(JobFileKey(JOB).render(), JOB_FILE)
    store.put(SpecKey(JOB).render(), job_plan(SHARDS, epochs=EPOCHS, **fields).to_json())
    store.put(HeadKey(JOB).render(), present.to_json())


def saved(bench: Bench, folder: Path) -> DirectoryStore:
    """The bench's bucket as a local run leaves it: a folder to give to ``--bucket``."""
    store = DirectoryStore(folder)
    for key, body in bench.store.snapshot().items():
        store.put(key, body)
    return store
