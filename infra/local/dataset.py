"""The data set of a local run: ``--dataset PATH``, or ``<dataset>.npz`` / ``.py`` by the job."""

from pathlib import Path

from spotgrad.cli.job import Job
from spotgrad.cli.source import load_source, splits_of
from spotgrad.errors import InvalidJob
from spotgrad.ports import ObjectStore
from spotgrad.steps.push_dataset import Layout, push_dataset

SEED = 0
"""Of the shuffle into shards: the same data gives the same shards on every run."""


def push_beside(store: ObjectStore, job: Job, given: Path | None) -> None:
    """Push the job's data set into the run's bucket.

    Raises:
        InvalidJob: there is no data set where it is looked for, or it is not one.
    """
    source = load_source(given or find_beside(job))
    splits = splits_of(source, validation=None, seed=SEED)
    layout = Layout(seed=SEED) if source.shards is None else Layout(source.shards, SEED)
    push_dataset(store, job.spec.dataset, splits, layout)


def find_beside(job: Job) -> Path:
    """Return the file beside the job file that holds its data set."""
    for suffix in (".npz", ".py"):
        path = job.directory / f"{job.spec.dataset}{suffix}"
        if path.is_file():
            return path
    name = job.spec.dataset
    raise InvalidJob(
        f"dataset: there is no {name}.npz and no {name}.py beside {job.path.name};"
        " give its path with --dataset"
    )
