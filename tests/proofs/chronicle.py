"""Every head that a job ever had, and what must be true of each and between two of them.

All is read off the heads and the ledger, as a user would. Invariant of its own: each head is
looked at as soon as it is written, so a head that was overwritten a moment later is seen too.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from spotgrad.planning.settle import INITIALIZATION
from spotgrad.protocol.head import ENDED, Head
from spotgrad.protocol.keys import HeadKey, LedgerKey
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.protocol.plan import JobPlan
from spotgrad.steps.documents import read_plan
from tests.builders import JOB
from tests.fakes.store import FakeStore
from tests.proofs.judge import Violation

HEAD: Final = HeadKey(JOB).render()
ALLOWED: Final = {
    "PLANNING": {"RUNNING", "PAUSED", "FAILED"},
    "RUNNING": {"PAUSED", "SUCCEEDED", "DEGRADED", "FAILED"},
    "PAUSED": {"PLANNING", "RUNNING", "SUCCEEDED", "DEGRADED", "FAILED"},
    "SUCCEEDED": set[str](),
    "DEGRADED": {"RUNNING", "PAUSED"},
    "FAILED": {"PLANNING", "RUNNING", "PAUSED"},
}
"""From an end only a redrive leads back; nobody cancels here."""


class Chronicle:
    """Watches the head of one job."""

    def __init__(self, store: FakeStore) -> None:
        self._store = store
        self._written: list[bytes] = []
        self._judged = 0
        self._before: Head | None = None
        self._entries: dict[str, LedgerEntry] = {}

    def head_written(self) -> None:
        """Note the head that was just written."""
        self._written.append(self._store.get(HEAD).body)

    def check(self) -> None:
        """Judge every head since the last time.

        Raises:
            Violation: the message says what is broken.
        """
        for body in self._written[self._judged :]:
            head = Head.from_json(body)
            self._check_step(self._before, head)
            self._before = head
        if self._before is None:
            return
        entries = self.entries(self._before)
        self._check_objects(self._before, entries)  # it may be gone without a new head
        if self._judged < len(self._written):
            self._check_whole(self._before, entries)
        self._judged = len(self._written)

    def entries(self, head: Head) -> list[LedgerEntry]:
        """Return the chain from revision 0 on."""
        found, key = list[LedgerEntry](), head.ledger
        while True:
            entry = self._entry(key)
            found.append(entry)
            if entry.previous is None:
                return found[::-1]
            if len(found) > head.revision:
                raise Violation(f"the chain of revision {head.revision} does not end")
            key = entry.previous

    def _check_step(self, before: Head | None, head: Head) -> None:
        entry = self._entry(head.ledger)
        previous = None if before is None else before.ledger
        revision = 0 if before is None else before.revision + 1
        if (head.revision, entry.previous) != (revision, previous):
            raise Violation(f"revision {head.revision} after {revision - 1} is not linear")
        if (entry.revision, entry.commit) != (head.revision, head.commit):
            raise Violation(f"the entry of revision {head.revision} is another commit's")
        if before is None:
            return
        if head.results_merged != before.results_merged + len(entry.merged):
            raise Violation(f"revision {head.revision} does not count what it merged")
        if head.state != before.state:
            self._check_transition(before, head, entry)

    def _check_transition(self, before: Head, head: Head, entry: LedgerEntry) -> None:
        redriven = bool(entry.redriven)
        if head.state not in ALLOWED[before.state] or (before.state in ENDED and not redriven):
            raise Violation(f"from {before.state} to {head.state} in revision {head.revision}")

    def _check_whole(self, head: Head, entries: list[LedgerEntry]) -> None:
        if [one.revision for one in entries] != list(range(head.revision + 1)):
            raise Violation(f"the chain of revision {head.revision} is not linear")
        versions = [one.version for one in entries if one.server]
        newest = None if not versions else len(versions) - 1
        if versions != list(range(len(versions))) or head.version != newest:
            raise Violation(f"the versions of revision {head.revision} are not linear: {versions}")
        rows = Counter((row.epoch, row.subtask) for one in entries for row in one.merged)
        twice = [name for name, times in rows.items() if times > 1]
        if twice:
            raise Violation(f"merged twice: {twice}")
        if head.results_merged != len(rows):
            raise Violation(f"revision {head.revision} does not count what its chain merged")
        self._check_closed(head, set(rows), entries)

    def _check_objects(self, head: Head, entries: list[LedgerEntry]) -> None:
        present = {info.key for info in self._store.list(f"models/{JOB}/")}
        missing = set(named_models(head, entries)) - present
        if missing:
            raise Violation(f"the head names what does not exist: {min(missing)}")

    def _check_closed(
        self, head: Head, merged: set[tuple[int, str]], entries: list[LedgerEntry]
    ) -> None:
        closed = [epoch for one in entries for epoch in one.closed_epochs]
        if closed != list(range(len(closed))) or any(one.epoch in closed for one in head.epochs):
            raise Violation(f"epochs closed in the order {closed}")
        plan = read_plan(self._store, JOB)
        dead = {(one.epoch, one.subtask) for one in head.dead if one.model is None}
        if dead & merged:
            raise Violation(f"dead and merged: {dead & merged}")
        excused = dead | set(open_late(head))
        for name in subtasks(plan):
            if name[0] in closed and name not in merged and name not in excused:
                raise Violation(f"epoch {name[0]} is closed without {name[1]}")

    def _entry(self, key: str) -> LedgerEntry:
        if key not in self._entries:
            if key not in {info.key for info in self._store.list(key)}:
                raise Violation(f"the head names what does not exist: {key}")
            entry = LedgerEntry.from_json(self._store.get(key).body)
            if key != LedgerKey(JOB, entry.revision, entry.commit).render():
                raise Violation(f"{key} holds the entry of another commit")
            self._entries[key] = entry
        return self._entries[key]


def named_models(head: Head, entries: list[LedgerEntry]) -> Iterator[str]:
    """Yield the keys of every version that the head or its chain names."""
    yield from (one.key for one in head.objects.values())
    yield from (one.server.key for one in entries if one.server)
    yield from (one.model.key for one in head.evaluations)
    yield from (one.model.key for one in head.evaluated)
    yield from (one.key for one in (head.model, head.final) if one)


def subtasks(plan: JobPlan) -> Iterator[tuple[int, str]]:
    """Yield every training subtask of the job."""
    for epoch in range(INITIALIZATION + 1, plan.spec.epochs + 1):
        for shard in range(plan.train_shards):
            yield epoch, f"train-{shard:06d}"


def open_late(head: Head) -> Iterator[tuple[int, str]]:
    """Yield what was redriven in closed epochs and is tried again."""
    for progress in head.late:
        for number in range(progress.subtasks):
            if not progress.done.has(number):
                yield progress.epoch, f"train-{number:06d}"
