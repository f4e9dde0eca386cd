"""A job enters the bucket: its code first, its job file last, for that PUT triggers planning.

Not the reading of files and not the planning. Invariant: everything that can be checked from
outside is checked before the first write, so a refused submission leaves the bucket as it was.
"""

from dataclasses import dataclass

from spotgrad.errors import InvalidJob, Malformed
from spotgrad.ports import ObjectReader, ObjectStore
from spotgrad.protocol.control import Control
from spotgrad.protocol.dataset import DatasetManifest
from spotgrad.protocol.job import JobSpec
from spotgrad.protocol.keys import CodeKey, ControlKey, JobFileKey, ManifestKey, SpecKey
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.tensors import digest
from spotgrad.steps.documents import find_document
from spotgrad.steps.plan_job import check_splits

__all__ = ["Submission", "Submitted", "find_manifest", "submit_job"]


@dataclass(frozen=True)
class Submission:
    """The exact bytes of the user's job file, what they say, and the code bundle beside it."""

    job_file: bytes
    spec: JobSpec
    code: bytes | None = None


@dataclass(frozen=True)
class Submitted:
    """What lies in the bucket now; ``changed`` is False when this very job was there before."""

    job: str
    manifest: DatasetManifest
    code_sha256: str | None
    changed: bool


def submit_job(store: ObjectStore, submission: Submission) -> Submitted:
    """Check the job against the bucket, then upload its code and its job file.

    Raises:
        InvalidJob: the data set is missing or lacks a split, or the name belongs to another job;
            nothing has been written.
    """
    spec = submission.spec
    manifest = find_manifest(store, spec)
    code_sha256 = None if submission.code is None else digest(submission.code)
    changed = not _is_planned(store, submission, code_sha256)
    control = ControlKey(spec.name).render()
    if changed:
        if submission.code is not None and code_sha256 is not None:
            # Written even where it exists: planning takes the bundle that was uploaded last.
            store.put(CodeKey(spec.name, code_sha256).render(), submission.code)
        # A wish to stop an earlier job of this name, one that was refused, is not about this one.
        if any(info.key == control for info in store.list(control)):
            store.put(control, Control().to_json())
        store.put(JobFileKey(spec.name).render(), submission.job_file)
    return Submitted(spec.name, manifest, code_sha256, changed)


def find_manifest(store: ObjectReader, spec: JobSpec) -> DatasetManifest:
    """Return the manifest of the job's data set, with every split that the job needs.

    Raises:
        InvalidJob: there is no such data set, or it is damaged or lacks a split.
    """
    try:
        manifest = find_document(store, ManifestKey(spec.dataset).render(), DatasetManifest)
    except Malformed as error:
        raise InvalidJob(
            f"dataset: {spec.dataset!r} is damaged ({error}); "
            f"push it again: spotgrad dataset push {spec.dataset} SOURCE"
        ) from error
    if manifest is None:
        raise InvalidJob(
            f"dataset: {spec.dataset!r} is not in the bucket; "
            f"push it first: spotgrad dataset push {spec.dataset} SOURCE"
        )
    check_splits(spec, manifest.splits)
    return manifest


def _is_planned(store: ObjectReader, submission: Submission, code_sha256: str | None) -> bool:
    """Return whether this very job is planned already.

    Raises:
        InvalidJob: another job of this name is.
    """
    name = submission.spec.name
    plan = find_document(store, SpecKey(name).render(), JobPlan)
    if plan is None:
        return False
    planned_code = None if plan.code is None else plan.code.sha256
    different = [
        what
        for what, planned, offered in (
            ("job file", plan.job_file_sha256, digest(submission.job_file)),
            ("code", planned_code, code_sha256),
        )
        if planned != offered
    ]
    if different:
        raise InvalidJob(
            f"name: {name!r} is taken by a job with {' and '.join(different)} other than this; "
            "choose another name"
        )
    return True
