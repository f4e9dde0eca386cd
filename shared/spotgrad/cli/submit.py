"""``validate`` and ``submit``: a job file is checked on this machine, then handed over."""

from collections.abc import Sequence
from pathlib import Path

from spotgrad.cli.advice import advice
from spotgrad.cli.code import pack_code
from spotgrad.cli.job import Job, load_job
from spotgrad.cli.output import Output, counted, size_text
from spotgrad.cli.task_check import check_task
from spotgrad.ports import ObjectReader, ObjectStore
from spotgrad.protocol.dataset import DatasetManifest
from spotgrad.steps.submit_job import Submission, Submitted, find_manifest, submit_job

__all__ = ["submit", "validate"]


def validate(path: Path, store: ObjectReader | None, output: Output) -> None:
    """Check a job file and its task; its data set too, when there is a bucket to look into.

    Raises:
        InvalidJob: the first thing that is wrong.
    """
    job = load_job(path)
    check_task(job)
    manifest = None if store is None else find_manifest(store, job.spec)
    warnings = _warn(job, manifest, output)
    spec = job.spec
    epochs = counted(spec.epochs, "epoch")
    output.say(f"{path}: valid: job {spec.name}, task {spec.task}, {epochs}", "green")
    output.document({"job": spec.name, "valid": True, "warnings": warnings, "spec": spec})


def submit(path: Path, store: ObjectStore, output: Output) -> None:
    """Check a job, then upload its code and its job file.

    Raises:
        InvalidJob: the first thing that is wrong; the bucket is as it was.
    """
    job = load_job(path)
    check_task(job)
    code = pack_code(job)
    submitted = submit_job(store, Submission(job.body, job.spec, code))
    warnings = _warn(job, submitted.manifest, output)
    if submitted.changed:
        _say_submitted(job, submitted, code, output)
    else:
        output.say(f"{submitted.job} is submitted already, with this very content: nothing to do")
    output.advise_going_on(f"watch {submitted.job}")
    output.document(
        {
            "job": submitted.job,
            "changed": submitted.changed,
            "code_sha256": submitted.code_sha256,
            "warnings": warnings,
        }
    )


def _say_submitted(job: Job, submitted: Submitted, code: bytes | None, output: Output) -> None:
    subtasks = counted(len(submitted.manifest.splits["train"].shards), "subtask")
    epochs = counted(job.spec.epochs, "epoch")
    bundle = "no code of its own" if code is None else f"{size_text(len(code))} of code"
    output.say(
        f"submitted {submitted.job}: {epochs} of {subtasks}, {bundle}",
        "green",
    )


def _warn(job: Job, manifest: DatasetManifest | None, output: Output) -> Sequence[str]:
    shards = None if manifest is None else len(manifest.splits["train"].shards)
    warnings = list(advice(job.spec, shards))
    for warning in warnings:
        output.warn(warning)
    return warnings
