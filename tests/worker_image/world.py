"""A bucket and a queue with one planned job in them, and workers to let loose on it.

The data set is eight rows of two numbers in two training shards, and one validation shard of three
rows; the task is a linear layer. Nothing here waits: time is a ``FakeClock``'s.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np

from spotgrad.protocol.attempt import Attempt
from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.bundle import pack
from spotgrad.protocol.dataset import Column, DatasetManifest, Shard, Split
from spotgrad.protocol.head import EpochProgress, EvaluationProgress, Head, ObjectRef
from spotgrad.protocol.job import JobSpec
from spotgrad.protocol.keys import AttemptKey, CodeKey, HeadKey, ModelKey, ShardKey, SpecKey
from spotgrad.protocol.plan import CodeRef, JobPlan
from spotgrad.protocol.result import ModelMetadata, ResultMetadata
from spotgrad.protocol.subtask import ModelRef, Subtask
from spotgrad.protocol.tensors import TensorFile, decode, digest, encode
from tests.fakes.clock import FakeClock
from tests.fakes.ids import FakeIds
from tests.fakes.queue import FakeQueue
from tests.fakes.store import FakeStore
from worker_image.assignment import Options, Ports
from worker_image.cache import Cache, MemoryCache
from worker_image.inputs import Inputs
from worker_image.interruption import Stop
from worker_image.loop import Worker
from worker_image.state import Arrays
from worker_image.task_code import TaskCode
from worker_image.workshop import Workshop

RUN = "0123456789abcdef"
COMMIT = "fedcba9876543210"
LEASE_SECONDS = 30
AT = datetime(2030, 1, 1, tzinfo=UTC)
TASK = """
import torch
from torch import nn
from tests.worker_image import hooks

class Tiny(nn.Module):
    def __init__(self, width=2):
        super().__init__()
        self.layer = nn.Linear(width, 2)

    def training_step(self, batch, batch_idx):
        hooks.on_batch(batch_idx)
        x, y = batch
        hooks.on_samples(x[:, 0].tolist())
        return nn.functional.cross_entropy(self.layer(x), y)

    def validation_step(self, batch, batch_idx):
        x, y = batch
        right = (self.layer(x).argmax(1) == y).float().mean()
        return {"loss": self.training_step(batch, batch_idx), "accuracy": right}

class Raises(Tiny):
    def training_step(self, batch, batch_idx):
        if batch_idx == 1:
            raise ValueError("label 7 is not known\\nsecond line")
        return super().training_step(batch, batch_idx)
"""
SERVER: Arrays = {
    "layer.weight": np.array([[0.5, -0.5], [0.25, 1.0]], np.float32),
    "layer.bias": np.array([0.1, -0.1], np.float32),
}


class FakeStop(Stop):
    """A stop whose waits are counted and over at once."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []
        self.on_wait: Callable[[], None] = lambda: None

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.on_wait()
        return self.requested


def spec(**changes: Any) -> JobSpec:
    fields: dict[str, Any] = {
        "name": "tiny-job",
        "task": "tiny_task:Tiny",
        "dataset": "tiny",
        "epochs": 3,
        "seed": 5,
        "local": {"passes": 2, "batch_size": 2, "optimizer": {"name": "sgd", "lr": 0.1}},
    }
    return JobSpec.model_validate(fields | changes)


def columns(rows: int, seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.normal(size=(rows, 2)).astype(np.float32),
        "y": rng.integers(0, 2, rows).astype(np.int32),
    }


class World:
    """One job in a fake bucket, with a model version and its first epoch open."""

    def __init__(self, *, task_text: str = TASK, run: str = RUN, **changes: Any) -> None:
        self.run = run
        self.clock = FakeClock()
        self.store = FakeStore(self.clock)
        self.queue = FakeQueue(self.clock, lease_seconds=LEASE_SECONDS)
        self.stop = FakeStop()
        self.ids = FakeIds()
        self.code = TaskCode()
        self.spec = spec(**changes)
        self.manifest = DatasetManifest(
            dataset="tiny",
            columns=(
                Column(name="x", dtype="float32", shape=(2,)),
                Column(name="y", dtype="int32", shape=()),
            ),
            splits={
                "train": Split(shards=(self._shard(0, 4), self._shard(1, 4))),
                "validation": Split(shards=(self._shard(2, 3),)),
            },
        )
        body = pack({"tiny_task.py": task_text.encode()})
        key = CodeKey(self.spec.name, digest(body)).render()
        self.store.put(key, body)
        self.plan = JobPlan(
            run=self.run,
            job_file_sha256=digest(b"job file"),
            spec=self.spec,
            manifest=self.manifest,
            code=CodeRef(key=key, sha256=digest(body), size_bytes=len(body)),
        )
        self.put_plan()
        self.model = self.put_model(3)
        self.put_head()

    def _shard(self, number: int, rows: int) -> Shard:
        body = encode(columns(rows, number), {})
        key = ShardKey("tiny", number, digest(body)[:16]).render()
        self.store.put(key, body)
        return Shard(key=key, samples=rows, size_bytes=len(body), sha256=digest(body))

    def put_plan(self) -> None:
        self.store.put(SpecKey(self.spec.name).render(), self.plan.to_json())

    def put_model(self, version: int, arrays: Arrays | None = None) -> ModelRef:
        metadata = ModelMetadata(
            job=self.spec.name,
            run=self.run,
            version=version,
            commit=COMMIT,
            results_merged=7,
            roles=dict.fromkeys(SERVER, "parameter"),
        )
        key = ModelKey(self.spec.name, version, COMMIT).render()
        self.store.put(key, encode(arrays or SERVER, metadata.to_header()))
        return ModelRef(version=version, commit=COMMIT, key=key)

    def put_head(self, **changes: Any) -> Head:
        body = self.store.get(self.model.key).body
        self.head = head(self.model, body, **({"job": self.spec.name, "run": self.run} | changes))
        self.store.put(HeadKey(self.spec.name).render(), self.head.to_json())
        return self.head

    def put_evaluation(self, model: ModelRef) -> Head:
        return self.put_head(
            evaluations=(
                EvaluationProgress(
                    epoch=2, model=model, subtasks=1, issued=members(0), issued_at=AT
                ),
            )
        )

    def send(self, name: str, epoch: int = 1, *, model: ModelRef | None = None) -> Subtask:
        message = Subtask(job=self.spec.name, run=self.run, epoch=epoch, subtask=name, model=model)
        self.queue.send([message.to_json().decode()])
        return message

    def ports(self) -> Ports:
        return Ports(self.store, self.queue, self.clock, self.ids)

    def worker(self, *, cache: Cache | None = None, **changes: Any) -> Worker:
        inputs = Inputs(self.store, cache or MemoryCache())
        options = Options(
            **{
                "worker": "test-worker",
                "lease_seconds": LEASE_SECONDS,
                "until_idle_seconds": 0.0,
                **changes,
            }
        )
        return Worker(self.ports(), inputs, Workshop(inputs, self.code), self.stop, options)

    def work(self, **changes: Any) -> None:
        self.worker(**changes).run()

    def renew_stop(self) -> None:
        """Let the next worker begin without a request to stop."""
        self.stop.close()
        self.stop = FakeStop()

    def results(self) -> list[tuple[ResultMetadata, TensorFile]]:
        found = []
        for key, body in self.store.snapshot().items():
            if key.startswith("results/"):
                file = decode(body)
                found.append((ResultMetadata.from_header(file.metadata), file))
        return found

    def attempt(self, name: str, epoch: int = 1, number: int = 1) -> Attempt:
        key = AttemptKey(self.spec.name, epoch, name, f"{number:016x}").render()
        return Attempt.from_json(self.store.get(key).body)

    def close(self) -> None:
        self.code.close()
        self.stop.close()


def head(model: ModelRef, body: bytes, /, **changes: Any) -> Head:
    fields: dict[str, Any] = {
        "job": "tiny-job",
        "run": RUN,
        "revision": 8,
        "commit": COMMIT,
        "ledger": "state/tiny-job/ledger/00000008-fedcba9876543210.json",
        "state": "RUNNING",
        "version": model.version,
        "results_merged": 7,
        "objects": {"server": ObjectRef(key=model.key, sha256=digest(body), size_bytes=len(body))},
        "model": model,
        "epochs": (epoch_progress(1),),
        "started_at": AT,
        "updated_at": AT,
    }
    return Head(**(fields | changes))


def epoch_progress(epoch: int, **changes: Any) -> EpochProgress:
    fields: dict[str, Any] = {
        "epoch": epoch,
        "subtasks": 2,
        "issued": Bitmap.of(range(changes.get("subtasks", 2))),
        "issued_at": AT,
    }
    return EpochProgress(**(fields | changes))


def members(*shards: int) -> Bitmap:
    return Bitmap.of(shards)
