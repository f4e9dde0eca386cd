"""``versions``: every model version of a job, as its ledger chain names them.

A model object that no entry of the chain names never was a version and is not listed.
"""

from dataclasses import dataclass
from datetime import datetime

from spotgrad.cli.output import Output, size_text
from spotgrad.cli.show import metrics_text, time_text
from spotgrad.ports import ObjectReader
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import models_prefix
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.steps.chain import read_head, version_entries

__all__ = ["Version", "read_versions", "versions"]


@dataclass(frozen=True)
class Version:
    """One row of ``versions``."""

    version: int
    commit: str
    results_merged: int
    closed_epochs: tuple[int, ...]
    metrics: dict[str, float]
    size_bytes: int
    created_at: datetime
    final: bool
    stored: bool
    """False when the model object has expired; ``replay`` may still rebuild it."""


def versions(store: ObjectReader, job: str, output: Output) -> None:
    """Print the versions of a job, oldest first.

    Raises:
        NotFound: there is no such job, or its chain is broken.
    """
    rows = read_versions(store, job)
    output.document({"job": job, "versions": rows})
    if not rows:
        output.say(f"{job} has no version yet")
        return
    header = ["VERSION", "COMMIT", "RESULTS", "EPOCH", "METRICS", "SIZE", "CREATED", ""]
    output.table(header, [_cells(row) for row in rows])


def read_versions(store: ObjectReader, job: str) -> list[Version]:
    """Return the versions of a job, oldest first.

    Raises:
        NotFound: there is no such job, or its chain is broken.
    """
    head = read_head(store, job)
    stored = {info.key for info in store.list(models_prefix(job))}
    return [_version(head, entry, stored) for entry in version_entries(store, head)]


def _version(head: Head, entry: LedgerEntry, stored: set[str]) -> Version:
    server = entry.server
    key = "" if server is None else server.key
    named = (entry.version, entry.commit)
    evaluated = (one for one in head.evaluated if (one.model.version, one.model.commit) == named)
    metrics = next((one.metrics for one in evaluated), {})
    return Version(
        version=-1 if entry.version is None else entry.version,
        commit=entry.commit,
        results_merged=entry.results_merged,
        closed_epochs=entry.closed_epochs,
        metrics=metrics,
        size_bytes=0 if server is None else server.size_bytes,
        created_at=entry.at,
        final=head.final is not None and (head.final.version, head.final.commit) == named,
        stored=key in stored,
    )


def _cells(row: Version) -> list[object]:
    closed = ", ".join(str(epoch) for epoch in row.closed_epochs) or None
    marks = "final" if row.final else "" if row.stored else "expired"
    metrics = metrics_text(row.metrics) or None
    size, created = size_text(row.size_bytes), time_text(row.created_at)
    return [row.version, row.commit, row.results_merged, closed, metrics, size, created, marks]
