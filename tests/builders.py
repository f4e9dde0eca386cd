"""A small job and everything around it, for tests of planning, steps and functions.

``job_plan`` and ``planned_head`` are values; ``Bench`` is a whole world on the fakes, with one job
in it, and with the hands of a worker (``put_result``). Nothing here asserts.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotgrad.planning.fold import bury, count_evaluated, count_merged
from spotgrad.planning.settle import open_initialization, settle
from spotgrad.planning.standing import open_items
from spotgrad.protocol.attempt import Attempt, AttemptOutcome
from spotgrad.protocol.dataset import Column, DatasetManifest, Shard, Split
from spotgrad.protocol.head import Head, WorkItem
from spotgrad.protocol.job_file import parse_job_file
from spotgrad.protocol.keys import (
    AttemptKey,
    HeadKey,
    JobFileKey,
    LedgerKey,
    ManifestKey,
    ModelKey,
    ResultKey,
)
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.result import (
    Base,
    Evaluated,
    Failed,
    Initialized,
    ModelMetadata,
    Outcome,
    ResultMetadata,
    Role,
    Sum,
    Trained,
)
from spotgrad.protocol.subtask import ModelRef, Subtask
from spotgrad.protocol.tensors import TensorFile, decode, digest, encode
from spotgrad.steps.aggregate_results import Aggregated, aggregate_results
from spotgrad.steps.documents import find_head
from spotgrad.steps.plan_job import Planned, plan_job
from spotgrad.steps.reconcile_job import Reconciled, Watch, reconcile_job
from spotgrad.steps.world import World
from tests.fakes.clock import START, FakeClock
from tests.fakes.ids import FakeIds
from tests.fakes.queue import FakeQueue
from tests.fakes.store import FakeStore

JOB = "digits"
RUN = "aa" * 8
LEASE_SECONDS = 120
PLANNING_SECONDS = 60.0
SAMPLES = 10
ROLES: dict[str, Role] = {"weight": "parameter", "counter": "buffer", "flag": "buffer"}

Tensors = dict[str, NDArray[Any]]


def tensors(value: float = 0.0, *, counter: int = 0) -> Tensors:
    """A tiny model: a float32 matrix, a BatchNorm-like int64 counter, a boolean."""
    return {
        "weight": np.full((2, 2), value, np.float32),
        "counter": np.array(counter, np.int64),
        "flag": np.array([True, False]),
    }


def job_file(**fields: Any) -> bytes:
    """A job file (JSON is YAML); ``fields`` add to it or take the place of what is there."""
    content = {"name": JOB, "task": "digits_task:Digits", "dataset": "digits", "epochs": 2}
    return json.dumps(content | fields).encode()


def manifest(train: int = 4, validation: int = 1) -> DatasetManifest:
    """A data set with so many shards; a split without shards is left out."""
    counts = {"train": train, "validation": validation}
    splits = {
        name: Split(shards=tuple(_shard(name, number) for number in range(count)))
        for name, count in counts.items()
        if count
    }
    column = Column(name="x", dtype="float32", shape=(64,))
    return DatasetManifest(dataset="digits", columns=(column,), splits=splits)


def _shard(split: str, number: int) -> Shard:
    sha256 = digest(f"{split}/{number}".encode())
    key = f"datasets/digits/{number:06d}-{sha256[:16]}.safetensors"
    return Shard(key=key, samples=SAMPLES, size_bytes=100, sha256=sha256)


def job_plan(shards: int = 4, *, evaluation_shards: int = 1, **fields: Any) -> JobPlan:
    """A planned job with so many training shards."""
    body = job_file(**fields)
    return JobPlan(
        run=RUN,
        job_file_sha256=digest(body),
        spec=parse_job_file(body),
        manifest=manifest(shards, evaluation_shards),
    )


def planned_head(plan: JobPlan) -> Head:
    """The first head: ``initialize`` is out."""
    head = Head(
        job=JOB,
        run=plan.run,
        revision=0,
        commit=RUN,
        ledger=LedgerKey(JOB, 0, RUN).render(),
        state="PLANNING",
        epochs=(open_initialization(START),),
        started_at=START,
        updated_at=START,
    )
    return settle(head, plan, START)


def model_ref(version: int) -> ModelRef:
    commit = f"{version:016x}"
    return ModelRef(version=version, commit=commit, key=ModelKey(JOB, version, commit).render())


def item(epoch: int, subtask: str) -> WorkItem:
    return WorkItem(epoch=epoch, subtask=subtask)


def train(epoch: int, shard: int) -> WorkItem:
    return item(epoch, f"train-{shard:06d}")


def evaluation(epoch: int, shard: int = 0) -> WorkItem:
    return item(epoch, f"evaluate-{shard:06d}")


def names(items: Any) -> list[tuple[int, str]]:
    """Epoch and name of each item, to compare with."""
    return [(one.epoch, one.subtask) for one in items]


def whole(epoch: int, shards: int = 4) -> list[WorkItem]:
    """Every training subtask of an epoch."""
    return [train(epoch, shard) for shard in range(shards)]


def sums(**means: float) -> dict[str, Sum]:
    return {name: Sum(total=mean * SAMPLES, count=SAMPLES) for name, mean in means.items()}


def done(head: Head, plan: JobPlan, *items: WorkItem, **means: float) -> Head:
    """Each subtask comes to its good end, in a commit of its own; then everything is sent."""
    for one in items:
        if one.subtask.startswith("evaluate"):
            head = count_evaluated(head, one, sums(**(means or {"accuracy": 0.5})))
        else:
            version = 0 if head.version is None else head.version + 1
            head = count_merged(head, one).model_copy(
                update={"version": version, "model": model_ref(version)}
            )
        head = settle(head, plan, START).model_copy(update={"outbox": ()})
    return head


def dead(head: Head, plan: JobPlan, one: WorkItem, reason: str = "boom") -> Head:
    """A subtask is given up."""
    return settle(bury(head, one, reason, None), plan, START)


def begun(plan: JobPlan) -> Head:
    """Version 0 exists, epoch 1 is out."""
    return done(planned_head(plan), plan, item(0, "initialize"))


def put_result(
    store: FakeStore,
    key: ResultKey,
    outcome: Outcome,
    body: Mapping[str, NDArray[Any]] | None = None,
    **claims: Any,
) -> ResultKey:
    """Upload what a worker would; ``claims`` replace what the header says of itself."""
    metadata = ResultMetadata(
        job=key.job,
        run=claims.pop("run", RUN),
        epoch=key.epoch,
        subtask=key.subtask,
        attempt=key.attempt,
        worker="worker-a",
        outcome=outcome,
    ).model_copy(update=claims)
    store.put(key.render(), encode(body or {}, metadata.to_header()))
    return key


@dataclass
class Bench:
    """Fakes, and a job in them: every method is one thing that happens to the job."""

    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.store = FakeStore(self.clock)
        self.queue = FakeQueue(self.clock, lease_seconds=LEASE_SECONDS)
        self.world = World(self.store, self.queue, self.clock, FakeIds())
        self.watch = Watch(self.store, self.queue, LEASE_SECONDS)
        self.attempts = FakeIds(0xA000)

    def upload(self, shards: int = 4, *, evaluation_shards: int = 1, **fields: Any) -> None:
        """The user pushes the data set and uploads the job file."""
        content = manifest(shards, evaluation_shards)
        self.store.put(ManifestKey("digits").render(), content.to_json())
        self.store.put(JobFileKey(JOB).render(), job_file(**fields))

    def plan(self) -> Planned:
        return plan_job(self.world, JOB, planning_seconds=PLANNING_SECONDS)

    def start_cold(self) -> None:
        """Forget what was read before, as a function does when its process is replaced."""
        self.world = replace(self.world)

    def start(self, shards: int = 4, value: float = 0.0, **fields: Any) -> Head:
        """Upload, plan and initialize: version 0 exists, epoch 1 is out."""
        self.upload(shards, **fields)
        self.plan()
        self.aggregate(self.initialized(value))
        return self.head

    @property
    def head(self) -> Head:
        present = find_head(self.store, JOB)
        if present is None:
            raise LookupError("the job has no head")
        return present.head

    @property
    def entry(self) -> LedgerEntry:
        """The newest ledger entry."""
        return LedgerEntry.from_json(self.store.get(self.head.ledger).body)

    def model(self) -> TensorFile:
        """The head's server copy."""
        return decode(self.store.get(self.head.objects["server"].key).body)

    def base(self) -> Base:
        """What a worker copies from the latest model file."""
        said = ModelMetadata.from_header(self.model().metadata)
        return Base(version=said.version, commit=said.commit, results_merged=said.results_merged)

    def result_key(self, of: WorkItem, attempt: str | None = None) -> ResultKey:
        return ResultKey(JOB, of.epoch, of.subtask, attempt or self.attempts())

    def put(self, of: WorkItem, outcome: Outcome, body: Tensors | None = None) -> ResultKey:
        key = self.result_key(of)
        return put_result(self.store, key, outcome, body, run=self.head.run)

    def initialized(self, value: float = 0.0) -> ResultKey:
        return self.put(item(0, "initialize"), Initialized(roles=ROLES), tensors(value))

    def trained(
        self,
        epoch: int,
        shard: int,
        value: float = 1.0,
        *,
        base: Base | None = None,
        samples: int = SAMPLES,
        body: Tensors | None = None,
    ) -> ResultKey:
        """A worker trains one shard from the latest version (or ``base``) and uploads."""
        outcome = Trained(base=base or self.base(), samples=samples, roles=ROLES)
        return self.put(train(epoch, shard), outcome, tensors(value) if body is None else body)

    def evaluated(self, epoch: int, shard: int = 0, **means: float) -> ResultKey:
        model = next(one.model for one in self.head.evaluations if one.epoch == epoch)
        outcome = Evaluated(version=model.version, commit=model.commit, sums=sums(**means))
        return self.put(evaluation(epoch, shard), outcome)

    def failed(self, of: WorkItem, error: str = "ValueError: boom") -> ResultKey:
        return self.put(of, Failed(error=error, traceback=f"Traceback\n{error}"))

    def aggregate(self, *keys: ResultKey) -> Aggregated:
        return aggregate_results(self.world, JOB, keys)

    def reconcile(self) -> Reconciled:
        return reconcile_job(self.world, self.watch, JOB)

    def attempt(
        self,
        of: WorkItem,
        outcome: AttemptOutcome | None = None,
        *,
        seconds: float = 1.0,
        base: Base | None = None,
    ) -> AttemptKey:
        """A worker's record as it stands now; ``seconds`` is how long the attempt took so far."""
        key = AttemptKey(JOB, of.epoch, of.subtask, self.attempts())
        record = Attempt(
            job=JOB,
            run=self.head.run,
            epoch=of.epoch,
            subtask=of.subtask,
            attempt=key.attempt,
            worker="worker-a",
            base=base,
            started_at=START,
            beat_at=START + timedelta(seconds=seconds),
            outcome=outcome,
        )
        self.store.put(key.render(), record.to_json())
        return key

    def drain(self) -> list[Subtask]:
        """Receive and acknowledge every message."""
        found: list[Subtask] = []
        while messages := self.queue.receive(most=10, wait_seconds=0):
            for message in messages:
                found.append(Subtask.from_json(message.body))
                self.queue.delete(message)
        return found

    def work(self, of: WorkItem, value: float = 1.0, accuracy: float = 0.5) -> ResultKey:
        """Do any open subtask."""
        kind, _, number = of.subtask.partition("-")
        if kind == "initialize":
            return self.initialized()
        if kind == "train":
            return self.trained(of.epoch, int(number), value)
        return self.evaluated(of.epoch, int(number), accuracy=accuracy)

    def finish(self) -> Head:
        """Do what is open, one result at a time, until the job has ended."""
        while not self.head.ended:
            self.aggregate(self.work(next(iter(open_items(self.head)))))
        return self.head

    def tamper(self, head: Head) -> None:
        """Overwrite the head behind everybody's back."""
        self.store.put(HeadKey(JOB).render(), head.to_json())
