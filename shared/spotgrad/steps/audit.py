"""Audit: proof from the bucket alone that a job is what its ledger says.

The chain is linear; every training subtask of a closed epoch was merged exactly once or is dead;
every coefficient is the one that the job's rule gives; every version whose inputs are retained
equals the merge of its entry, bit for bit. Reads only; a finding is a sentence, never an exception.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import ClassVar

from spotgrad.errors import Malformed, NotFound
from spotgrad.merging.coefficients import Contribution
from spotgrad.merging.rule import decide
from spotgrad.planning.settle import INITIALIZATION
from spotgrad.ports import ObjectReader
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import LedgerKey
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.tensors import TensorFile, decode, digest
from spotgrad.protocol.wire import Document
from spotgrad.steps.chain import read_head, walk_back
from spotgrad.steps.documents import read_plan
from spotgrad.steps.rebuild import rebuild


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
    plan = read_plan(store, job)
    rebuilt, without_inputs, differing = _rebuild_all(store, entries)
    findings = [
        *broken,
        *_linear(head, entries),
        *_merged_once(head, plan, entries),
        *_by_the_rule(plan, entries),
        *differing,
    ]
    return AuditReport(
        job=job,
        revisions=len(entries),
        versions=sum(entry.server is not None for entry in entries),
        results_merged=sum(len(entry.merged) for entry in entries),
        versions_rebuilt=rebuilt,
        versions_without_inputs=without_inputs,
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
    version, merged = -1, 0
    for revision, entry in enumerate(entries):
        version += entry.server is not None
        merged += len(entry.merged)
        if entry.revision != revision:
            yield f"revision {entry.revision} stands where {revision} belongs"
        if (entry.job, entry.run) != (head.job, head.run):
            yield f"revision {entry.revision} is of another job or run"
        if (-1 if entry.version is None else entry.version) != version:
            yield f"revision {entry.revision} says version {entry.version}, the chain {version}"
        if entry.results_merged != merged:
            yield f"revision {entry.revision} counts {entry.results_merged} results, not {merged}"
    newest = entries[-1] if entries else None
    if newest is None or (newest.revision, newest.commit) != (head.revision, head.commit):
        yield "the head is not the newest entry of its chain"
    elif newest.server is not None and newest.server != head.objects.get("server"):
        yield "the head names another server copy than its newest entry"


def _merged_once(head: Head, plan: JobPlan, entries: Sequence[LedgerEntry]) -> Iterator[str]:
    merged = Counter((row.epoch, row.subtask) for entry in entries for row in entry.merged)
    for (epoch, subtask), times in sorted(merged.items()):
        if times > 1:
            yield f"{subtask} of epoch {epoch} was merged {times} times"
    dead = {(grave.epoch, grave.subtask) for grave in head.dead}
    closed = sorted({epoch for entry in entries for epoch in entry.closed_epochs})
    for epoch in closed:
        if epoch != INITIALIZATION:
            for shard in range(plan.train_shards):
                name = f"train-{shard:06d}"
                if (epoch, name) not in merged and (epoch, name) not in dead:
                    yield f"epoch {epoch} is closed, but {name} was neither merged nor is dead"


def _by_the_rule(plan: JobPlan, entries: Sequence[LedgerEntry]) -> Iterator[str]:
    for entry in entries:
        if not entry.merged:
            continue
        batch = [Contribution(row.epoch, row.staleness, row.samples) for row in entry.merged]
        wanted = decide(plan.spec.merge, batch)
        found = tuple(row.coefficient for row in entry.merged)
        if (entry.server_coefficient, found) != (wanted.server, wanted.clients):
            yield f"revision {entry.revision} merged with coefficients that the rule does not give"


def _rebuild_all(store: ObjectReader, entries: Sequence[LedgerEntry]) -> tuple[int, int, list[str]]:
    """Rebuild every version from the one before; count those done, those impossible; find."""
    rebuilt, without_inputs, findings = 0, 0, []
    last: TensorFile | None = None
    for entry in entries:
        if entry.server is None:
            continue
        body: bytes | None
        try:
            body = rebuild(store, entry, last)
            rebuilt += 1
        except NotFound:
            body = _stored(store, entry.server.key)
            without_inputs += 1
        except Malformed as error:
            body = _stored(store, entry.server.key)
            findings.append(f"version {entry.version} cannot be rebuilt: {error}")
        if body is not None and digest(body) != entry.server.sha256:
            findings.append(f"version {entry.version} is not the merge that its entry describes")
        last = None if body is None else decode(body)
        findings += _stored_differs(store, entry)
    return rebuilt, without_inputs, findings


def _stored(store: ObjectReader, key: str) -> bytes | None:
    try:
        return store.get(key).body
    except NotFound:
        return None


def _stored_differs(store: ObjectReader, entry: LedgerEntry) -> Iterator[str]:
    if entry.server is not None:
        body = _stored(store, entry.server.key)
        if body is not None and digest(body) != entry.server.sha256:
            yield f"version {entry.version}: {entry.server.key} is not what was committed"
