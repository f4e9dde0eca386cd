"""The data set of a local run: ``--dataset PATH``, or ``<dataset>.npz`` / ``.py`` by the job.

Read and checked before anything begins, pushed once there is a bucket.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spotgrad.cli.data import DEFAULT_SHARDS
from spotgrad.cli.job import Job
from spotgrad.cli.source import load_source, named_after, splits_of
from spotgrad.errors import InvalidJob
from spotgrad.planning.sharding import TRAIN, Arrays, columns_of, samples_of
from spotgrad.ports import ObjectStore
from spotgrad.steps.plan_job import check_splits
from spotgrad.steps.push_dataset import Layout, push_dataset

SEED = 0
"""Of the shuffle into shards: the same data gives the same shards on every run."""


@dataclass(frozen=True)
class LocalDataset:
    """A data set in memory, good for the job that it was loaded for."""

    name: str
    splits: Mapping[str, Arrays]
    layout: Layout

    def push(self, store: ObjectStore) -> None:
        """Cut it into shards and upload them."""
        push_dataset(store, self.name, self.splits, self.layout)


def load_beside(job: Job, given: Path | None) -> LocalDataset:
    """Read the job's data set, from ``given`` or from beside the job file.

    Raises:
        InvalidJob: there is none where it is looked for, or it is not one that the job can use.
    """
    if given is not None and not given.is_file():
        raise InvalidJob(
            f"--dataset {given}: there is no such file; give an .npz file, or a .py file"
            " with arrays()"
        )
    path = given or find_beside(job)
    source = load_source(path)
    with named_after(path):
        splits = splits_of(source, validation=None, seed=SEED)
        columns_of(splits)
    check_splits(job.spec, splits)
    shards = source.shards or DEFAULT_SHARDS
    _check_size(path, samples_of(TRAIN, splits[TRAIN]), shards)
    return LocalDataset(job.spec.dataset, splits, Layout(shards, SEED))


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


def _check_size(path: Path, samples: int, shards: int) -> None:
    if samples < shards:
        raise InvalidJob(
            f"dataset {path}: {samples} samples in split {TRAIN!r} cannot fill {shards} shards;"
            f" add samples, or set SHARDS in a .py file to {samples} or less"
        )
