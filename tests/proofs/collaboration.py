"""A DeDLOC job on the fakes, with real workers of unequal pace, some of which leave half-way.

Everything is the product's: planning, the worker's loop, torch, commits. Only the order of things
is the test's: each worker does one subtask per turn, and the results of a round of turns are
aggregated together, in an order of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from spotgrad.ports import Message
from spotgrad.protocol.bundle import pack
from spotgrad.protocol.dataset import Column, DatasetManifest, Shard, Split
from spotgrad.protocol.keys import CodeKey, JobFileKey, ManifestKey, ResultKey, ShardKey
from spotgrad.protocol.tensors import decode, digest, encode
from spotgrad.steps.aggregate_results import aggregate_results
from spotgrad.steps.documents import find_head
from spotgrad.steps.plan_job import plan_job
from spotgrad.steps.world import World
from tests.builders import JOB, job_file
from tests.fakes.clock import FakeClock
from tests.fakes.ids import FakeIds
from tests.fakes.queue import FakeQueue
from tests.fakes.store import FakeStore
from tests.worker_image import hooks
from worker_image.assignment import Options, Ports
from worker_image.cache import MemoryCache
from worker_image.inputs import Inputs
from worker_image.interruption import Stop
from worker_image.loop import Worker
from worker_image.task_code import TaskCode
from worker_image.workshop import Workshop

LEASE_SECONDS: Final = 30
COLUMNS: Final = 3
SHARDS: Final = (10, 7, 12, 5, 9, 11, 8, 6)
"""Samples: no two shards are equal, so that weighing matters."""

TASK: Final = """
import torch
from torch import nn
from tests.worker_image import hooks

class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))

    def training_step(self, batch, batch_idx):
        hooks.on_batch(batch_idx)
        x, y = batch
        return nn.functional.cross_entropy(self.layers(x), y)
"""


def shard(number: int) -> dict[str, NDArray[Any]]:
    draw = np.random.default_rng(number)
    x = draw.normal(size=(SHARDS[number], COLUMNS)).astype(np.float32)
    return {"x": x, "y": (x.sum(1) + 0.3 * draw.normal(size=len(x)) > 0).astype(np.int64)}


class _OneMessage:
    """The queue, as a worker sees it that does one subtask and then believes to be idle."""

    def __init__(self, queue: FakeQueue) -> None:
        self._queue = queue
        self._asked = False
        self.served = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def receive(self, *, most: int, wait_seconds: float) -> Sequence[Message]:
        if self._asked:
            return []
        self._asked = True
        found = self._queue.receive(most=most, wait_seconds=wait_seconds)
        self.served = bool(found)
        return found


@dataclass
class Collaboration:
    """``paces``: how many subtasks each worker does in a round; ``leaves``: who is told to leave in
    the midst of which of its subtasks (counted from 0), and is gone afterwards.
    """

    paces: Sequence[int]
    leaves: Mapping[int, int] = field(default_factory=dict)
    job: Mapping[str, Any] = field(default_factory=dict)
    batch_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.clock = FakeClock()
        self.store = FakeStore(self.clock)
        self.queue = FakeQueue(self.clock, lease_seconds=LEASE_SECONDS)
        self.world = World(self.store, self.queue, self.clock, FakeIds())
        self._ids = FakeIds(0xA000)
        self._code = TaskCode()
        self._done = dict.fromkeys(range(len(self.paces)), 0)
        self._seen: set[str] = set()
        self.left: list[int] = []

    def run(self) -> dict[str, NDArray[Any]]:
        """Plan the job and work on it to its end; return the final parameters."""
        self._upload()
        plan_job(self.world, JOB, planning_seconds=60)
        try:
            for round_ in range(10_000):
                if self.head.ended:
                    body = self.store.get(self.head.objects["server"].key).body
                    return dict(decode(body).tensors)
                self._round(round_)
        finally:
            self._code.close()
        raise AssertionError("the job does not end")

    @property
    def head(self) -> Any:
        present = find_head(self.store, JOB)
        assert present is not None
        return present.head

    def _round(self, number: int) -> None:
        here = [worker for worker in self._done if worker not in self.left]
        for worker in here[number % len(here) :] + here[: number % len(here)]:
            for _ in range(self.paces[worker]):
                self._turn(worker)
        fresh = [key for key in self.store.snapshot() if key.startswith("results/")]
        fresh = sorted(set(fresh) - self._seen, key=lambda key: digest(key.encode()))
        self._seen |= set(fresh)
        aggregate_results(self.world, JOB, [ResultKey.parse(key) for key in fresh])

    def _turn(self, worker: int) -> None:
        stop = Stop()
        leaving = self.leaves.get(worker) == self._done[worker]

        def on_batch(index: int) -> None:
            self.clock.advance(self.batch_seconds)
            if leaving and index == 1:
                stop.request()

        hooks.on_batch = on_batch
        inputs = Inputs(self.store, MemoryCache())
        options = Options(f"worker-{worker}", LEASE_SECONDS, until_idle_seconds=0.0)
        queue: Any = _OneMessage(self.queue)
        ports = Ports(self.store, queue, self.clock, self._ids)
        Worker(ports, inputs, Workshop(inputs, self._code), stop, options).run()
        self._done[worker] += queue.served
        if stop.requested:
            self.left.append(worker)
        stop.close()

    def _upload(self) -> None:
        shards = []
        for number, samples in enumerate(SHARDS):
            body = encode(shard(number), {})
            key = ShardKey("digits", number, digest(body)[:16]).render()
            self.store.put(key, body)
            shards.append(
                Shard(key=key, samples=samples, size_bytes=len(body), sha256=digest(body))
            )
        columns = (
            Column(name="x", dtype="float32", shape=(COLUMNS,)),
            Column(name="y", dtype="int64", shape=()),
        )
        splits = {"train": Split(shards=tuple(shards))}
        manifest = DatasetManifest(dataset="digits", columns=columns, splits=splits)
        self.store.put(ManifestKey("digits").render(), manifest.to_json())
        code = pack({"tiny_task.py": TASK.encode()})
        self.store.put(CodeKey(JOB, digest(code)).render(), code)
        fields = {"task": "tiny_task:Tiny", "evaluate": None, "local": {"batch_size": 3}}
        self.store.put(JobFileKey(JOB).render(), job_file(**(fields | dict(self.job))))


def rows(numbers: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return all samples of these shards."""
    parts = [shard(number) for number in numbers]
    x, y = (np.concatenate([one[name] for one in parts]) for name in "xy")
    return torch.from_numpy(x), torch.from_numpy(y)
