"""Plan: a job file landed -> validate -> spec, head and the first subtask; or a refusal.

Idempotent: the same content planned again sends what is still unsent and changes nothing else.
Invariant: a head is created only after the spec that it stands on, and a refused job leaves none.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from spotgrad.errors import InvalidJob, Malformed, NotFound, PlanningInProgress
from spotgrad.planning.control import obey
from spotgrad.planning.issue import issue_next
from spotgrad.planning.offer import Offer, why_unserved
from spotgrad.planning.settle import open_initialization
from spotgrad.ports import ABSENT, Absent, ObjectInfo
from spotgrad.protocol.bundle import MOST_BYTES
from spotgrad.protocol.control import Control
from spotgrad.protocol.dataset import DatasetManifest
from spotgrad.protocol.head import Head
from spotgrad.protocol.job import JobSpec
from spotgrad.protocol.job_file import parse_job_file
from spotgrad.protocol.keys import (
    ActiveKey,
    CodeKey,
    ControlKey,
    JobFileKey,
    LedgerKey,
    ManifestKey,
    RefusedKey,
    SpecKey,
    code_prefix,
)
from spotgrad.protocol.plan import CodeRef, JobPlan
from spotgrad.protocol.refusal import Refusal
from spotgrad.protocol.tensors import digest
from spotgrad.steps.commit import commit_new, send_outbox
from spotgrad.steps.documents import (
    TaggedHead,
    find_document,
    find_head,
    read_document,
    read_plan,
)
from spotgrad.steps.succession import Successor, entry_for
from spotgrad.steps.world import World

PlanOutcome = Literal["planned", "already planned", "refused"]


@dataclass(frozen=True)
class Planned:
    """What became of one job file."""

    outcome: PlanOutcome
    reason: str | None = None


def plan_job(
    world: World, job: str, *, planning_seconds: float, offers: Sequence[Offer] = ()
) -> Planned:
    """Plan the job whose file lies in the store.

    ``planning_seconds``: how long a planner may live; a spec without a head that is younger may
    still be in its planner's hands. ``offers``: the fleets that may serve the job; without any,
    workers are started by hand.

    Raises:
        PlanningInProgress: another upload of the same name is being planned; try again later.
        NotFound: there is no such job file.
    """
    body = world.store.get(JobFileKey(job).render()).body
    present = find_head(world.store, job)
    outcome: PlanOutcome = "planned" if present is None else "already planned"
    try:
        if present is None:
            wanted = _validated(world, job, body, offers)
            present = _create(world, _settle_spec(world, wanted, planning_seconds))
        else:
            _check_same(world, job, body)
    except InvalidJob as error:
        return _refuse(world, job, body, str(error))
    send_outbox(world, present)
    return Planned(outcome)


def _check_same(world: World, job: str, body: bytes) -> None:
    """Raise ``InvalidJob`` when a planned job's name is used for another; data may have changed."""
    plan = read_plan(world.store, job)
    if (plan.job_file_sha256, plan.code) != (digest(body), _newest_code(world, job)):
        raise InvalidJob(
            f"job {job}: the name is taken by another job file or other code; choose a new name"
        )


def _validated(world: World, job: str, body: bytes, offers: Sequence[Offer]) -> JobPlan:
    spec = parse_job_file(body)
    if spec.name != job:
        raise InvalidJob(f"job file: name: {spec.name!r} was uploaded as {job!r}; make them equal")
    unserved = why_unserved(offers, spec.workers)
    if unserved is not None:
        raise InvalidJob(f"job file: {unserved}")
    manifest = _manifest(world, spec)
    return JobPlan(
        run=world.new_id(),
        job_file_sha256=digest(body),
        spec=spec,
        manifest=manifest,
        code=_newest_code(world, job),
    )


def _manifest(world: World, spec: JobSpec) -> DatasetManifest:
    key = ManifestKey(spec.dataset).render()
    try:
        manifest = read_document(world.store, key, DatasetManifest)
    except NotFound:
        raise InvalidJob(
            f"job file: dataset: there is no data set {spec.dataset!r};"
            f" push it with `spotgrad dataset push {spec.dataset} SOURCE`"
        ) from None
    except Malformed as error:
        raise InvalidJob(
            f"job file: dataset: data set {spec.dataset!r} is damaged ({error});"
            f" push it again with `spotgrad dataset push {spec.dataset} SOURCE`"
        ) from error
    check_splits(spec, manifest.splits)
    return manifest


def check_splits(spec: JobSpec, splits: Collection[str]) -> None:
    """Raise ``InvalidJob`` when a data set of these splits lacks one that the job needs."""
    needed: Mapping[str, str] = {"train": "training"}
    if spec.evaluate is not None:
        needed = {"train": "training", spec.evaluate.split: "evaluate.split"}
    for split, purpose in needed.items():
        if split not in splits:
            has = ", ".join(splits)
            raise InvalidJob(
                f"job file: dataset {spec.dataset!r} has no split {split!r} ({purpose});"
                f" it has: {has}"
            )


def _newest_code(world: World, job: str) -> CodeRef | None:
    """Return the bundle that was uploaded last; ``submit`` uploads it before the job file."""
    bundles = list(world.store.list(code_prefix(job)))
    if not bundles:
        return None
    newest = max(bundles, key=lambda info: (info.modified_at, info.key))
    try:
        sha256 = CodeKey.parse(newest.key).sha256
    except Malformed as error:
        raise InvalidJob(f"job {job}: {error}; let `spotgrad submit` upload the code") from error
    if newest.size_bytes == 0:
        raise InvalidJob(f"job {job}: {newest.key} is empty; let `spotgrad submit` upload the code")
    if newest.size_bytes > MOST_BYTES:  # no worker is to load it into its memory
        raise InvalidJob(
            f"job {job}: {newest.key}: {newest.size_bytes:,} bytes, at most {MOST_BYTES:,} are "
            "allowed; leave data out of the code"
        )
    return CodeRef(key=newest.key, sha256=sha256, size_bytes=newest.size_bytes)


def _settle_spec(world: World, wanted: JobPlan, planning_seconds: float) -> JobPlan:
    """Write the spec, or adopt the equal one that a planner before us wrote; return the one kept.

    Two planners must not create a head on each other's spec. An abandoned spec of other content is
    replaced only when its planner cannot be alive any more.
    """
    key = SpecKey(wanted.spec.name).render()
    only_if: Absent | str = ABSENT
    info = _info(world, key)
    if info is not None:
        present = read_document(world.store, key, JobPlan)
        if present.model_copy(update={"run": wanted.run}) == wanted:
            return present
        age = world.clock.now() - info.modified_at
        if age < timedelta(seconds=2 * planning_seconds):
            raise PlanningInProgress(f"job {wanted.spec.name}: another upload is being planned")
        only_if = info.etag
    world.store.put(key, wanted.to_json(), only_if=only_if)
    return wanted


def _info(world: World, key: str) -> ObjectInfo | None:
    return next((info for info in world.store.list(key) if info.key == key), None)


def _create(world: World, plan: JobPlan) -> TaggedHead:
    """Mark the job active, then create its head with ``initialize`` in the outbox."""
    job = plan.spec.name
    world.store.put(ActiveKey(job).render(), b"")
    made = first_commit(plan, world, _wish(world, job))
    etag = commit_new(world.store, made)
    if etag is not None:
        return TaggedHead(made.head, etag)
    present = find_head(world.store, job)
    if present is None or present.head.run != plan.run:
        raise PlanningInProgress(f"job {job}: another planner is creating its head")
    return present


def _wish(world: World, job: str) -> Control:
    """Return what the user wanted before planning; ``reconcile`` reports a damaged file."""
    with suppress(Malformed):
        return find_document(world.store, ControlKey(job).render(), Control) or Control()
    return Control()


def first_commit(plan: JobPlan, world: World, control: Control) -> Successor:
    """Return revision 0: epoch 0 open, its one subtask in the outbox; or paused, or cancelled."""
    now, commit_id, job = world.clock.now(), world.new_id(), plan.spec.name
    head = Head(
        job=job,
        run=plan.run,
        revision=0,
        commit=commit_id,
        ledger=LedgerKey(job, 0, commit_id).render(),
        state="PLANNING",
        epochs=(open_initialization(now),),
        started_at=now,
        updated_at=now,
    )
    head = obey(issue_next(head, plan, now), plan, control, now)
    return Successor(head, entry_for(head, previous=None))


def _refuse(world: World, job: str, body: bytes, reason: str) -> Planned:
    refusal = Refusal(job=job, job_file_sha256=digest(body), reason=reason, at=world.clock.now())
    if not _is_noted(world, refusal):
        world.store.put(RefusedKey(job).render(), refusal.to_json())
    return Planned("refused", reason)


def _is_noted(world: World, refusal: Refusal) -> bool:
    """Return whether this very upload has been refused before: its event came twice."""
    key = RefusedKey(refusal.job).render()
    noted, uploaded = _info(world, key), _info(world, JobFileKey(refusal.job).render())
    if noted is None or uploaded is None or uploaded.modified_at > noted.modified_at:
        return False
    with suppress(Malformed):
        before = find_document(world.store, key, Refusal)
        return before is not None and before.repeats(refusal)
    return False
