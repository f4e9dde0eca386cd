"""``dlq list`` and ``dlq redrive``: the subtasks that are not tried again, and trying them again.

What is dead is said by the head, not by a queue: a message in a dead-letter queue is a trace, and
the subtask that it was about may long be merged. Those messages are counted beside it (``queues``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spotgrad.cli.control import refuse_cancelled
from spotgrad.cli.output import Output
from spotgrad.cli.queues import count_dead_letters, say_rows
from spotgrad.errors import InvalidJob, Unsupported
from spotgrad.ports import NewId, ObjectReader, ObjectStore
from spotgrad.protocol.control import Redrive
from spotgrad.protocol.head import DeadSubtask, Head, WorkItem
from spotgrad.steps.chain import read_head
from spotgrad.steps.change_control import change_control
from spotgrad.steps.evidence import Evidence, read_evidence

__all__ = ["Wanted", "list_dead", "redrive"]

_MOST_NAMED: Final = 5


@dataclass(frozen=True)
class Dead:
    """One row of ``dlq list --json``."""

    epoch: int
    subtask: str
    reason: str
    attempts: int
    evidence: str | None
    found: Evidence


def list_dead(store: ObjectReader, job: str, output: Output, *, verbose: bool) -> None:
    """Print the dead subtasks of a job; with their tracebacks if ``verbose``, and in JSON.

    And how many messages lie in the dead-letter queues that the environment names.

    Raises:
        NotFound: there is no such job.
    """
    head, queues = read_head(store, job), count_dead_letters()
    if output.as_json:
        dead = [_row(store, job, grave) for grave in head.dead]
        output.document({"job": job, "dead": dead, "queues": queues})
    else:
        _say_dead(store, head, output, verbose=verbose)
        say_rows(queues, output)


def _say_dead(store: ObjectReader, head: Head, output: Output, *, verbose: bool) -> None:
    job = head.job
    if not head.dead:
        output.say(f"{job} has no dead subtasks")
    elif verbose:
        for grave in head.dead:
            _say_all(_row(store, job, grave), output)
    else:
        rows = [[one.epoch, one.subtask, one.reason, one.evidence] for one in head.dead]
        output.table(["EPOCH", "SUBTASK", "REASON", "EVIDENCE"], rows)
        output.advise(f"dlq list {job} --verbose")
        output.advise(f"dlq redrive {job} --all")


@dataclass(frozen=True)
class Wanted:
    """What is asked of which job; ``named``: ``train-000003``, or ``2/train-000003``; or all."""

    job: str
    named: Sequence[str]


def redrive(store: ObjectStore, new_id: NewId, wanted: Wanted, output: Output) -> None:
    """Ask for dead subtasks to be tried again: those named, or all where none is.

    Raises:
        NotFound: there is no such job.
        InvalidJob: one that is named is not dead.
        Unsupported: the job was cancelled.
    """
    job = wanted.job
    head = read_head(store, job)
    if head.state == "CANCELLED":
        raise Unsupported(f"job {job}: it is CANCELLED, and that is for good")
    if not head.ended:
        refuse_cancelled(store, job)
    chosen = _chosen(head, wanted.named)
    if chosen:
        _ask(store, new_id, head, chosen)
        output.say(f"{len(chosen)} of {job} to be tried again: {_names(chosen)}")
        output.advise_going_on(f"watch {job}")
    else:
        output.say(f"{job} has no dead subtasks: nothing to do")
    items = [WorkItem(epoch=one.epoch, subtask=one.subtask) for one in chosen]
    output.document({"job": job, "redriven": items})


def _ask(store: ObjectStore, new_id: NewId, head: Head, chosen: Sequence[DeadSubtask]) -> None:
    items = tuple(WorkItem(epoch=one.epoch, subtask=one.subtask) for one in chosen)
    wish = Redrive(token=new_id(), subtasks=items)
    # A wish to pause or cancel from before its end must not stop a job that is to run again.
    changes = {"redrive": wish} | ({"want": "run"} if head.ended else {})
    change_control(store, head.job, lambda control: control.model_copy(update=changes))


def _chosen(head: Head, named: Sequence[str]) -> list[DeadSubtask]:
    if not named:
        return list(head.dead)
    for name in named:
        if not any(_is(grave, name) for grave in head.dead):
            has = _names(head.dead) or "none"
            raise InvalidJob(f"job {head.job}: {name!r} is not dead; dead are: {has}")
    return [grave for grave in head.dead if any(_is(grave, name) for name in named)]


def _is(grave: DeadSubtask, name: str) -> bool:
    return name in (grave.subtask, f"{grave.epoch}/{grave.subtask}")


def _names(graves: Sequence[DeadSubtask]) -> str:
    names = [f"{grave.epoch}/{grave.subtask}" for grave in graves]
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _row(store: ObjectReader, job: str, grave: DeadSubtask) -> Dead:
    found = read_evidence(store, job, grave)
    attempts = len(grave.attempts)
    return Dead(grave.epoch, grave.subtask, grave.reason, attempts, grave.evidence, found)


def _say_all(row: Dead, output: Output) -> None:
    output.say(f"{row.epoch}/{row.subtask}: {row.reason}", "red")
    found = row.found
    for label, value in (
        ("shard", found.shard),
        ("batch", found.batch_idx),
        ("samples", ", ".join(map(str, found.rows)) or None),
        ("worker", found.worker),
        ("evidence", row.evidence),
    ):
        if value is not None:
            output.say(f"  {label:<10}{value}")
    output.say(found.traceback or "  no traceback: the result has expired or reports none")
