"""``list`` and ``status``: how jobs stand, once."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from spotgrad.cli.display import state_style
from spotgrad.cli.output import Output
from spotgrad.errors import Reject
from spotgrad.ports import Clock, ObjectReader
from spotgrad.steps.read_status import Quorum, Status, SubtaskCounts, list_jobs, read_status

__all__ = ["list_all", "metrics_text", "show_ended", "show_status", "time_text"]


def list_all(store: ObjectReader, clock: Clock, output: Output) -> None:
    """Print a row per job; one whose documents cannot be read says so and hides no other."""
    found = [_row(store, clock, job) for job in list_jobs(store)]
    output.document({"jobs": [document for document, _ in found]})
    if found:
        header = ["JOB", "STATE", "EPOCH", "VERSION", "SUBTASKS", "METRICS", "UPDATED"]
        output.table(header, [cells for _, cells in found])
    else:
        output.say("no jobs in this bucket; the first one: spotgrad submit JOB.yaml")


def show_status(store: ObjectReader, clock: Clock, job: str, output: Output) -> None:
    """Print how one job stands.

    Raises:
        NotFound: there is no such job.
    """
    status = read_status(store, job, clock.now())
    output.document(status)
    output.say(f"{status.job}  {status.state}", state_style(status.state))
    for label, text in _lines(status):
        output.say(f"  {label:<10}{text}")


def show_ended(status: Status, output: Output) -> None:
    """Say how a job ended, and what a person does next."""
    style = state_style(status.state)
    output.say(f"{status.job}  {status.state}  {metrics_text(status.metrics)}".rstrip(), style)
    if status.reason:
        output.say(f"reason: {status.reason}")
    if status.version is not None:
        output.advise(f"pull {status.job}")


def metrics_text(metrics: Mapping[str, float]) -> str:
    """Return metrics by name, to four digits."""
    return "  ".join(f"{name} {value:.4f}" for name, value in sorted(metrics.items()))


def time_text(moment: datetime | None) -> str:
    """Return a moment in UTC, to the second."""
    return "-" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _row(store: ObjectReader, clock: Clock, job: str) -> tuple[object, list[object]]:
    try:
        status = read_status(store, job, clock.now())
    except Reject as error:
        return {"job": job, "error": str(error)}, [job, "UNREADABLE", None, None, None, None, None]
    counts = status.subtasks
    subtasks = None if counts.total is None else f"{counts.merged}/{counts.total}"
    updated = time_text(status.updated_at)
    metrics = metrics_text(status.metrics) or None
    cells: list[object] = [
        job,
        status.state,
        status.epoch,
        status.version,
        subtasks,
        metrics,
        updated,
    ]
    return status, cells


def _lines(status: Status) -> Iterator[tuple[str, str]]:
    if status.reason:
        yield "reason", status.reason
    yield from _progress(status)
    if status.started_at is not None:
        yield "workers", str(status.workers)
        yield "started", time_text(status.started_at)
    if status.updated_at is not None:
        yield "updated", time_text(status.updated_at)
    for grave in status.dead_subtasks:
        yield "dead", f"{grave.subtask} of epoch {grave.epoch}: {grave.reason}"


def _progress(status: Status) -> Iterator[tuple[str, str]]:
    if status.epochs is not None:
        yield "epoch", f"{'-' if status.epoch is None else status.epoch} of {status.epochs}"
        yield "subtasks", _counts_text(status.subtasks)
    if status.version is not None:
        yield "version", str(status.version)
    if status.metrics:
        yield "metrics", metrics_text(status.metrics)
    if status.quorum is not None:
        yield "quorum", _quorum_text(status.quorum)


def _counts_text(counts: SubtaskCounts) -> str:
    """Return the counts of a job; those that only some rules know, where there is anything."""
    always = (
        f"{counts.merged} of {counts.total} merged, {counts.in_flight} in flight, "
        f"{counts.rejected} rejected, {counts.failed} failed, "
        f"{counts.retried} retried, {counts.dead} dead"
    )
    seldom = {"dropped": counts.dropped, "late": counts.late}
    return ", ".join([always, *(f"{count} {name}" for name, count in seldom.items() if count)])


def _quorum_text(quorum: Quorum) -> str:
    """Return what the comparison came to, with every worker that stood alone by name."""
    outvoted = (
        f"{worker} outvoted {times} x{' and quarantined' if worker in quorum.quarantined else ''}"
        for worker, times in sorted(quorum.outvoted.items())
    )
    return ", ".join([f"{quorum.checks} being compared", *outvoted])
