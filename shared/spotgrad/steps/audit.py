"""Audit: proof from the bucket alone that a job is what its ledger says.

The chain is linear; every training subtask of a closed epoch was merged exactly once, or is
dead or being redriven;
every coefficient is the one that the job's rule gives; every version whose inputs are retained
equals the merge of its entry, bit for bit. Reads only; a finding is a sentence, never an exception.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from spotgrad.errors import Malformed, NotFound
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.merging.rule import decide
from spotgrad.planning.settle import INITIALIZATION
from spotgrad.planning.standing import work_item
from spotgrad.ports import ObjectReader
from spotgrad.protocol.head import Head, ObjectRef, WorkItem
from spotgrad.protocol.keys import LedgerKey
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.recipe import SERVER, WINDOW, client
from spotgrad.protocol.wire import Document
from spotgrad.steps.chain import read_head, walk_back
from spotgrad.steps.documents import read_plan
from spotgrad.steps.rebuild_all import rebuild_all


class AuditReport(Document):
    """What an audit looked at and what it found; no finding means clean."""

    what: ClassVar[str] = "audit report"

    job: str
    revisions: int
    versions: int
    results_merged: int
    versions_rebuilt: int
    versions_without_inputs: int
    findings: tuple[str, ...]


def audit(store: ObjectReader, job: str) -> AuditReport:
    """Audit ``job``; raises ``NotFound`` when there is no such job."""
    head = read_head(store, job)
    entries, broken = _chain(store, head)
    rebuilt = rebuild_all(store, entries)
    # Half a chain would break every other rule as well: the break alone is worth saying.
    findings = broken or [
        *_linear(head, entries),
        *_counted(entries),
        *_planned(store, head, entries),
        *rebuilt.findings,
    ]
    return AuditReport(
        job=job,
        revisions=len(entries),
        versions=sum(entry.server is not None for entry in entries),
        results_merged=sum(len(entry.merged) for entry in entries),
        versions_rebuilt=rebuilt.rebuilt,
        versions_without_inputs=rebuilt.without_inputs,
        findings=tuple(findings),
    )


def _chain(store: ObjectReader, head: Head) -> tuple[list[LedgerEntry], list[str]]:
    """Return the entries from the first on, and what is wrong with reading them."""
    entries: list[LedgerEntry] = []
    try:
        for key, entry in walk_back(store, head):
            if key != LedgerKey(head.job, entry.revision, entry.commit).render():
                return entries[::-1], [f"{key} holds the entry of another commit"]
            entries.append(entry)
    except (NotFound, Malformed) as error:
        return entries[::-1], [f"the ledger chain is broken: {error}"]
    return entries[::-1], []


def _linear(head: Head, entries: Sequence[LedgerEntry]) -> Iterator[str]:
    """Every revision follows the last, merges into the last server copy; the head is the newest."""
    objects: dict[str, ObjectRef] = {}
    for revision, entry in enumerate(entries):
        if entry.revision != revision:
            yield f"revision {entry.revision} stands where {revision} belongs"
        if (entry.job, entry.run) != (head.job, head.run):
            yield f"revision {entry.revision} is of another job or run"
        yield from _merged_into(entry, objects)
        dropped = entry.recipe.drops if entry.recipe else ()
        objects = {name: one for name, one in objects.items() if name not in dropped}
        objects |= entry.written
    newest = entries[-1]
    if (newest.revision, newest.commit) != (head.revision, head.commit):
        yield "the head is not the newest entry of its chain"
    if (newest.version, newest.results_merged) != (head.version, head.results_merged):
        yield "the head counts other versions or results than its newest entry"
    if objects.get(SERVER) != head.objects.get(SERVER):
        yield "the head names another server copy than the last version's entry"
    elif objects != head.objects:
        yield "the head names other objects than its chain wrote"


def _merged_into(entry: LedgerEntry, objects: Mapping[str, ObjectRef]) -> Iterator[str]:
    if not entry.merges:
        return
    if entry.start != objects.get(SERVER):
        yield f"revision {entry.revision} merged into another server copy than the last"
    others = {name: one for name, one in objects.items() if name != SERVER}
    if entry.objects_before != others:
        yield f"revision {entry.revision} merged with other objects than the last left"


def _counted(entries: Sequence[LedgerEntry]) -> Iterator[str]:
    """Versions and results are counted up, and staleness from what was merged before."""
    version, merged = -1, 0
    for entry in entries:
        version += entry.server is not None
        if (-1 if entry.version is None else entry.version) != version:
            yield f"revision {entry.revision} says version {entry.version}, the chain {version}"
        for before, row in enumerate(entry.merged, start=merged):
            staleness = before - row.base.results_merged
            if row.staleness != staleness:
                yield f"{row.key} was merged at staleness {row.staleness}, not {staleness}"
        merged += len(entry.merged)
        if entry.results_merged != merged:
            yield f"revision {entry.revision} counts {entry.results_merged} results, not {merged}"


def _planned(store: ObjectReader, head: Head, entries: Sequence[LedgerEntry]) -> Iterator[str]:
    try:
        plan = read_plan(store, head.job)
    except (NotFound, Malformed) as error:
        yield f"the job as it was planned cannot be read: {error}"
        return
    yield from _merged_once(head, plan, entries)
    yield from _by_the_rule(plan, entries)


def _merged_once(head: Head, plan: JobPlan, entries: Sequence[LedgerEntry]) -> Iterator[str]:
    merged = Counter((row.epoch, row.subtask) for entry in entries for row in entry.merged)
    for (epoch, subtask), times in sorted(merged.items()):
        if times > 1:
            yield f"{subtask} of epoch {epoch} was merged {times} times"
    closed = [epoch for entry in entries for epoch in entry.closed_epochs]
    first_open = head.epochs[0].epoch if head.epochs else plan.spec.epochs + 1
    if closed != list(range(first_open)):
        yield f"the ledger closes epochs {closed}, the head those before {first_open}"
    dropped = [item for entry in entries for item in entry.dropped]
    excused = {(item.epoch, item.subtask) for item in (*head.dead, *dropped, *_redriven(head))}
    for epoch in range(INITIALIZATION + 1, first_open):
        for shard in range(plan.train_shards):
            name = work_item("train", epoch, shard).subtask
            if (epoch, name) not in merged and (epoch, name) not in excused:
                yield f"epoch {epoch} is closed, but {name} was neither merged nor is dead"


def _redriven(head: Head) -> Iterator[WorkItem]:
    """Yield the subtasks of closed epochs that were dead and are being tried again."""
    for progress in head.late:
        for number in range(progress.subtasks):
            if not progress.done.has(number):
                yield work_item("train", progress.epoch, number)


def _by_the_rule(plan: JobPlan, entries: Sequence[LedgerEntry]) -> Iterator[str]:
    version, tally = 0, dict[str, float]()
    for entry in entries:
        if entry.merges:
            yield from _one_merge(plan, entry, version, tally)
        tally = entry.recipe.tally if entry.recipe else {} if entry.merges else tally
        if plan.spec.merge.in_rounds and any(entry.closed_epochs) and tally.get(WINDOW):
            yield f"revision {entry.revision} closes an epoch whose round is not merged"
        version = version if entry.version is None else entry.version


def _one_merge(
    plan: JobPlan, entry: LedgerEntry, version: int, tally: Mapping[str, float]
) -> Iterator[str]:
    """Ask the rule again, as ``aggregate`` asked it before this commit."""
    batch = [
        Contribution(row.epoch, row.staleness, row.samples, version - row.base.version)
        for row in entry.merged
    ]
    names = () if entry.start is None else (SERVER, *entry.objects_before)
    occasion = Occasion(
        plan.spec.in_flight, frozenset(names), tally, entry.last, closes=entry.closes
    )
    try:
        wanted = decide(plan.spec, occasion, batch)
    except ValueError as error:
        yield f"revision {entry.revision} merged what the rule refuses: {error}"
        return
    weights, found = wanted.weights(SERVER), [row.coefficient for row in entry.merged]
    shown = [weights.get(client(number), 0.0) for number, _ in enumerate(batch)]
    same = (entry.server_coefficient, found) == (weights.get(SERVER, 0.0), shown)
    if not same or entry.followed != wanted:
        yield f"revision {entry.revision} merged by coefficients the rule does not give"
