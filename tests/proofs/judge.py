"""What must hold in every state of the commit protocol, and what in every final one.

Everything is read off the head and its chain alone, as ``audit`` and a user would; what a head
says never changes, so each head is judged once.
"""

from collections import Counter
from dataclasses import dataclass, field

from spotgrad.planning.standing import open_items
from spotgrad.protocol.head import Head
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.protocol.subtask import Subtask
from tests.builders import names
from tests.proofs.machine import Known

Name = tuple[int, str]


class Violation(Exception):
    """The protocol is broken; the message says how."""


@dataclass(frozen=True)
class Verdict:
    """What one head says, and what is wrong with it whatever the store holds."""

    problem: str | None
    needs: frozenset[str]
    """Objects that it names, or that its chain names."""
    merged: frozenset[Name]
    open: frozenset[Name]


@dataclass
class Judge:
    """Judges heads by number."""

    known: Known
    _verdicts: dict[int, Verdict] = field(default_factory=dict)

    def of(self, head: int) -> Verdict:
        if head not in self._verdicts:
            self._verdicts[head] = self._judged(Head.from_json(self.known.heads[head]))
        return self._verdicts[head]

    def check(self, head: int, missing: frozenset[str]) -> None:
        """Raise ``Violation`` when this head, or its chain, is wrong or lacks an object."""
        problem = self.of(head).problem
        if missing:
            raise Violation(f"the head names what does not exist: {min(missing)}")
        if problem:
            raise Violation(problem)

    def check_end(self, head: int, sent: frozenset[Name], results: frozenset[Name]) -> None:
        """Raise ``Violation`` when a job that stands still has lost a result or a subtask."""
        verdict = self.of(head)
        if not results <= verdict.merged:
            raise Violation(f"never merged: {sorted(results - verdict.merged)}")
        if not verdict.open <= sent:
            raise Violation(f"open, but never sent: {sorted(verdict.open - sent)}")

    def announced(self, head: int, bodies: tuple[str, ...]) -> frozenset[Name]:
        """Return the subtasks among these messages that a worker would not drop now."""
        messages = [Subtask.from_json(body) for body in bodies]
        return frozenset((one.epoch, one.subtask) for one in messages) & self.of(head).open

    def _judged(self, head: Head) -> Verdict:
        entries = self._chain(head)
        named = {one.server.key for one in entries if one.server} | _models(head)
        rows = Counter((row.epoch, row.subtask) for one in entries for row in one.merged)
        return Verdict(
            problem=_problem(head, entries, rows),
            needs=frozenset(
                named | {head.ledger} | {one.previous or head.ledger for one in entries}
            ),
            merged=frozenset(rows),
            open=frozenset(names(open_items(head))),
        )

    def _chain(self, head: Head) -> list[LedgerEntry]:
        """Return the entries from the newest on, as far as they can be read."""
        entries: list[LedgerEntry] = []
        key: str | None = head.ledger
        while key is not None and key in self.known.objects:
            entries.append(LedgerEntry.from_json(self.known.objects[key]))
            key = entries[-1].previous
        return entries


def _models(head: Head) -> set[str]:
    named = {one.key for one in head.objects.values()} | {one.model.key for one in head.evaluations}
    return named | ({head.model.key} if head.model else set())


def _problem(head: Head, entries: list[LedgerEntry], rows: Counter[Name]) -> str | None:
    revisions = [one.revision for one in entries]
    if revisions != list(range(head.revision, -1, -1)):
        return f"the chain of revision {head.revision} is not linear: {revisions}"
    versions = [one.version for one in entries if one.server]
    if versions != list(range(len(versions) - 1, -1, -1)):
        return f"the versions of revision {head.revision} are not linear: {versions}"
    twice = [name for name, times in rows.items() if times > 1]
    if twice:
        return f"merged twice: {twice}"
    if head.results_merged != len(rows) or head.version != len(versions) - 1:
        return f"revision {head.revision} does not count what its chain merged"
    return None
