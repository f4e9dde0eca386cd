"""Real runs on the local stack: what the simulator is held against.

S3, SQS, the three functions and worker processes on loopback, as ``spotgrad local run`` starts
them; the job is the simulator's own (same model, shards, seeds). Times are those of the attempt
records. Not the simulated side (``training``), and no table.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from benchmarks.reproduce import clothes_task
from benchmarks.reproduce.study import NAME, SEED, Study
from infra.local.chaos.spec import ChaosSpec
from infra.local.home import Home
from infra.local.run import RunOptions, local_run
from spotgrad.cli.job import load_job
from spotgrad.directory.store import DirectoryStore
from spotgrad.protocol.attempt import Attempt
from spotgrad.protocol.keys import attempts_prefix
from spotgrad.protocol.recipe import SERVER
from spotgrad.protocol.result import ResultMetadata, Trained
from spotgrad.protocol.tensors import decode
from spotgrad.steps.audit import audit
from spotgrad.steps.chain import read_head, writing_entries

__all__ = ["Contribution", "Given", "StackRun", "run_on_stack"]


@dataclass(frozen=True)
class Given:
    """A job, and how it is to be run."""

    job: Mapping[str, Any]
    workers: int
    slow_seconds: Sequence[float] = ()
    """Added to every training subtask, worker by worker."""
    kill: float | None = None
    """Probability that an attempt's worker is killed; None leaves the fault injection out."""


@dataclass(frozen=True)
class Contribution:
    """What a merged result says: from which version, over how many samples, with which loss."""

    version: int
    samples: int
    loss: float


@dataclass(frozen=True)
class StackRun:
    """What a run left behind."""

    state: str
    findings: Sequence[str]
    accuracy: float
    """As the last evaluation had it."""
    tensors: Mapping[str, NDArray[Any]]
    attempts: Sequence[Attempt]
    """Those at training subtasks, in the order in which they began."""
    kills: int
    contributions: Sequence[Contribution]
    """Those that were merged."""

    @property
    def seconds(self) -> float:
        """Return the time from the first attempt's beginning to the last one's end."""
        return (
            max(one.beat_at for one in self.attempts) - self.attempts[0].started_at
        ).total_seconds()

    @property
    def attempt_seconds(self) -> float:
        """Return how long an attempt took that came to its end, on average."""
        whole = [one for one in self.attempts if one.outcome == "uploaded"]
        return fmean((one.beat_at - one.started_at).total_seconds() for one in whole)

    @property
    def good(self) -> bool:
        """Return whether the job succeeded and its audit is clean."""
        return self.state == "SUCCEEDED" and not self.findings


def run_on_stack(study: Study, given: Given, folder: Path) -> StackRun:
    """Run a job from ``folder``, which is made and filled."""
    _lay_out(study, given.job, folder)
    chaos = None if given.kill is None else ChaosSpec(kill=given.kill, seed=SEED)
    options = RunOptions(
        load_job(folder / "job.yaml"),
        workers=given.workers,
        slow_seconds=given.slow_seconds,
        chaos=chaos,
    )
    home = Home(NAME, folder / "home")
    with local_run(options, home) as run:
        status = run.watch(lambda *_: None)
        run.drain()
    store = DirectoryStore(home.bucket)
    head = read_head(store, NAME)
    return StackRun(
        state=status.state,
        findings=audit(store, NAME).findings,
        accuracy=status.metrics["accuracy"],
        tensors=decode(store.get(head.objects[SERVER].key).body).tensors,
        attempts=_training_attempts(store),
        kills=run.outcome.chaos.get("kill", 0),
        contributions=list(_contributions(store)),
    )


def _lay_out(study: Study, job: Mapping[str, Any], folder: Path) -> None:
    """Put job file, task and data set where ``spotgrad local run`` looks for them."""
    folder.mkdir(parents=True)
    (folder / "job.yaml").write_text(yaml.safe_dump(dict(job)), encoding="utf-8")
    shutil.copy(clothes_task.__file__, folder / "clothes_task.py")
    splits = study.load()
    arrays = {
        f"{split}_{name}": one for split, each in splits.items() for name, one in each.items()
    }
    np.savez(folder / "images.npz", allow_pickle=False, **arrays)
    (folder / f"{NAME}.py").write_text(_SOURCE.format(shards=study.shards), encoding="utf-8")


_SOURCE = '''"""The data set, as ``spotgrad local run`` asks for it."""
from pathlib import Path

import numpy as np

SHARDS = {shards}


def arrays():
    with np.load(Path(__file__).with_name("images.npz")) as file:
        return {{
            split: {{name: file[f"{{split}}_{{name}}"] for name in ("x", "y")}}
            for split in ("train", "validation")
        }}
'''


def _contributions(store: DirectoryStore) -> Iterator[Contribution]:
    for entry in writing_entries(store, read_head(store, NAME)):
        for row in entry.merged:
            header = ResultMetadata.from_header(decode(store.get(row.key).body).metadata)
            if isinstance(header.outcome, Trained):
                loss = header.outcome.sums["loss"]
                yield Contribution(row.base.version, row.samples, loss.total / loss.count)


def _training_attempts(store: DirectoryStore) -> list[Attempt]:
    records = [store.get(info.key).body for info in store.list(attempts_prefix(NAME))]
    attempts = [Attempt.from_json(body) for body in records]
    trained = [one for one in attempts if one.subtask.startswith("train")]
    return sorted(trained, key=lambda one: one.started_at)
