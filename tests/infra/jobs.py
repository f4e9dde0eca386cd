"""A job in a folder, with task and data, and what a cut-off local run of it leaves; no torch."""

from pathlib import Path
from typing import Any

from infra.local.dataset import load_beside
from infra.local.ready import Ready
from infra.local.run import submit
from spotgrad.cli.code import pack_code
from spotgrad.cli.job import Job, load_job
from spotgrad.ports import ObjectStore
from spotgrad.steps.plan_job import plan_job
from spotgrad.steps.world import World
from tests.builders import PLANNING_SECONDS, job_file
from tests.fakes.clock import FakeClock
from tests.fakes.ids import FakeIds
from tests.fakes.queue import FakeQueue
from tests.fakes.store import FakeStore

DATA = """
import numpy as np
SHARDS = 4

def arrays():
    columns = {"x": np.arange(8.0), "y": np.arange(8)}
    return {"train": columns, "validation": columns}
"""


def write_job(folder: Path, **fields: Any) -> Job:
    folder.mkdir(exist_ok=True)
    (folder / "digits_task.py").write_text("class Digits: ...\n", encoding="utf-8")
    (folder / "digits.py").write_text(DATA, encoding="utf-8")
    path = folder / "job.yaml"
    path.write_bytes(job_file(**fields))
    return load_job(path)


def ready(job: Job) -> Ready:
    return Ready(job, pack_code(job), load_beside(job, None))


def plan(store: ObjectStore, job: Job) -> None:
    """The plan function runs."""
    clock = FakeClock()
    world = World(store, FakeQueue(clock), clock, FakeIds())
    assert plan_job(world, job.spec.name, planning_seconds=PLANNING_SECONDS).outcome == "planned"


def submitted(job: Job) -> FakeStore:
    store, made = FakeStore(), ready(job)
    assert made.dataset is not None
    made.dataset.push(store)
    submit(store, made)
    return store


def planned(job: Job) -> FakeStore:
    store = submitted(job)
    plan(store, job)
    return store
