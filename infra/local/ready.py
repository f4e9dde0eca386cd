"""Everything about a local run that can be checked before it begins, checked.

Reads the job's folder and the kept bucket and imports the user's task in a process of its own.
Invariant: nothing is written and nothing is started, so a refused run leaves all as it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.local.chaos.spec import ChaosSpec
from infra.local.dataset import LocalDataset, load_beside
from infra.local.delivery import Delivery, once
from infra.local.emulator import MOTO, Server
from infra.local.home import Home
from spotgrad.cli.code import pack_code
from spotgrad.cli.job import Job
from spotgrad.cli.task_check import check_task
from spotgrad.errors import InvalidJob
from spotgrad.ports import ObjectReader
from spotgrad.protocol.bundle import unpack
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.tensors import digest
from spotgrad.steps.documents import find_head, read_plan


@dataclass(frozen=True)
class RunOptions:
    """What the command line says, and what tests add."""

    job: Job
    workers: int = 2
    dataset: Path | None = None
    resume: bool = False
    fresh: bool = False
    deliver: Delivery = once
    slow_seconds: Sequence[float] = ()
    chaos: ChaosSpec | None = None
    server: Server = MOTO


@dataclass(frozen=True)
class Ready:
    """What is to be uploaded."""

    job: Job
    code: bytes | None
    dataset: LocalDataset | None
    """None when a planned run goes on: the kept bucket holds everything."""


def check_run(options: RunOptions, home: Home) -> Ready:
    """Check the run, the cheap things first.

    Raises:
        InvalidJob: the first thing that is wrong.
    """
    home.check(resume=options.resume, fresh=options.fresh)
    job, code = options.job, pack_code(options.job)
    planned = options.resume and find_head(home.kept, job.spec.name) is not None
    if planned:
        _check_same(home, job, code)
    dataset = None if planned else load_beside(job, options.dataset)
    check_task(job)
    return Ready(job, code, dataset)


def _check_same(home: Home, job: Job, code: bytes | None) -> None:
    """A run goes on as it was planned: what was changed since would silently have no effect."""
    plan = read_plan(home.kept, job.spec.name)
    changed = [
        what
        for what, same in (
            (f"job file {job.path.name}", plan.job_file_sha256 == digest(job.body)),
            ("code beside it", _same_code(home.kept, plan, code)),
        )
        if not same
    ]
    if changed:
        raise InvalidJob(
            f"--resume: the {' and the '.join(changed)} changed since this run of {job.spec.name}"
            " began; undo the change, or start anew with --fresh"
        )


def _same_code(kept: ObjectReader, plan: JobPlan, code: bytes | None) -> bool:
    if plan.code is None or code is None:
        return plan.code is None and code is None
    # Another zlib packs the same files into other bytes.
    return plan.code.sha256 == digest(code) or unpack(kept.get(plan.code.key).body) == unpack(code)
