"""What has become of a job: all that may not depend on crashes, lost answers or repetitions.

Left out on purpose: commit ids, revisions, how often something was sent, and running totals.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from spotgrad.planning.standing import open_items, why_not_open
from spotgrad.protocol.head import WorkItem
from spotgrad.protocol.keys import ActiveKey, RefusedKey
from spotgrad.protocol.refusal import Refusal
from spotgrad.protocol.subtask import Subtask
from spotgrad.protocol.tensors import decode
from spotgrad.steps.audit import audit
from spotgrad.steps.chain import walk_back, writing_entries
from spotgrad.steps.documents import find_document, find_head
from tests.builders import JOB, Bench

Name = tuple[int, str]


@dataclass(frozen=True)
class Outcome:
    """Two runs came to the same when these are equal."""

    state: str
    reason: str | None
    merged: tuple[tuple[str, float], ...]
    """Keys and coefficients in order of merging; a key that stands here twice was merged twice."""
    versions: tuple[bytes, ...]
    """The tensors of each object of each commit, version 0 first."""
    set_aside: tuple[str, ...]
    dead: tuple[tuple[int, str, str], ...]
    metrics: tuple[tuple[str, float], ...]
    open: frozenset[Name]
    receivable: frozenset[Name]
    """The open subtasks of which a worker can receive a message."""
    active: bool
    findings: tuple[str, ...]


def outcome(bench: Bench) -> Outcome:
    head = bench.head
    entries = [entry for _, entry in walk_back(bench.store, head)][::-1]
    merged = [(row.key, row.coefficient) for entry in entries for row in entry.merged]
    aside = [
        f"{what} {row.key}: {row.reason}"
        for entry in entries
        for what in ("refused", "failed", "evaluated")
        for row in getattr(entry, what)
    ]
    return Outcome(
        state=head.state,
        reason=head.reason,
        merged=tuple(merged),
        versions=_versions(bench),
        set_aside=tuple(aside),
        dead=tuple((one.epoch, one.subtask, one.reason) for one in head.dead),
        metrics=tuple(sorted(head.metrics.items())),
        open=frozenset((one.epoch, one.subtask) for one in open_items(head)),
        receivable=frozenset(_receivable(bench)),
        active=ActiveKey(JOB).render() in bench.store.snapshot(),
        findings=audit(bench.store, JOB).findings,
    )


def refusal(bench: Bench) -> str | None:
    """Why the job file was refused; a refused job must have no head."""
    found = find_document(bench.store, RefusedKey(JOB).render(), Refusal)
    return None if found is None or find_head(bench.store, JOB) is not None else found.reason


def _versions(bench: Bench) -> tuple[bytes, ...]:
    entries = writing_entries(bench.store, bench.head)
    references = [one for entry in entries for one in entry.written.values()]
    return tuple(_values(decode(bench.store.get(one.key).body).tensors) for one in references)


def _values(tensors: Mapping[str, NDArray[Any]]) -> bytes:
    return b"".join(name.encode() + tensors[name].tobytes() for name in sorted(tensors))


def _receivable(bench: Bench) -> list[Name]:
    head, found = bench.head, []
    for body in bench.queue.bodies():
        message = Subtask.from_json(body)
        item = WorkItem(epoch=message.epoch, subtask=message.subtask)
        if why_not_open(head, message.run, item) is None:
            found.append((item.epoch, item.subtask))
    return found
