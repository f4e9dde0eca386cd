"""Receipt: add up what the attempts of a job took, and write it down when it has changed.

Each attempt counts from its start to its last beat, by its worker's clock; one that vanished
counts up to then. Time that a worker spends waiting for work is not seen here. Invariant: what is
counted once is final, so the cost of this step depends on what is open, not on how long the job is.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from spotgrad.errors import Malformed
from spotgrad.planning.standing import open_items
from spotgrad.ports import ObjectInfo, ObjectReader
from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import AttemptKey, ReceiptKey, SubtaskName, attempts_prefix
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.receipt import EpochCost, Receipt
from spotgrad.steps.attempt_reader import lasted
from spotgrad.steps.documents import find_document, keyed
from spotgrad.steps.world import World

SECONDS_PER_HOUR = 3600
MOST_FETCHED = 200
"""One pass fetches no more records that nobody has read yet: the next goes on where it stopped,
so a backlog (a function that was away for long) costs accuracy for minutes, never a timeout."""


def find_receipt(store: ObjectReader, head: Head) -> Receipt | None:
    """Return the receipt of the head's run; None when there is none, or it is damaged."""
    try:
        found = find_document(store, ReceiptKey(head.job).render(), Receipt)
    except Malformed:
        return None
    return found if found is not None and found.run == head.run else None


def renew_receipt(world: World, head: Head, *, lease_seconds: int) -> Receipt | None:
    """Return the receipt as of now, written when it differs; None where nobody said a price."""
    plan = world.plans.read(head)
    price = plan.spec.workers.usd_per_hour
    if price is None:
        return None
    before = find_receipt(world.store, head)
    known = {} if before is None else {row.epoch: row for row in before.epochs}
    quiet_since = world.clock.now() - timedelta(seconds=2 * lease_seconds)
    count = _Count(world, head, quiet_since, world.attempts.fetched + MOST_FETCHED)
    rows = tuple(count.epoch(number, known.get(number)) for number in _begun(head, plan, known))
    seconds = sum(row.worker_seconds for row in rows)
    receipt = Receipt(
        job=head.job,
        run=head.run,
        usd_per_hour=price,
        worker_seconds=seconds,
        usd=seconds * price / SECONDS_PER_HOUR,
        epochs=rows,
    )
    if receipt != before:
        world.store.put(ReceiptKey(head.job).render(), receipt.to_json())
    return receipt


def _begun(head: Head, plan: JobPlan, known: Iterable[int]) -> range:
    """Return the epochs that may have attempts: up to the newest that was ever open."""
    newest = max((one.epoch for one in head.epochs), default=plan.spec.epochs)
    return range(max(newest, *known, 0) + 1)


@dataclass(frozen=True)
class _Count:
    """One pass over the records that are not final yet."""

    world: World
    head: Head
    quiet_since: datetime
    """A record that was last written before is not written again: its worker is done or gone."""
    fetch_until: int

    def epoch(self, number: int, before: EpochCost | None) -> EpochCost:
        """Return the row of one epoch, going on from the row that was written last."""
        groups = (*self.head.epochs, *self.head.late, *self.head.evaluations)
        is_open = not self.head.ended and any(one.epoch == number for one in groups)
        if before is not None and before.settled and not is_open:
            return before
        open_now = {one.subtask for one in open_items(self.head) if one.epoch == number}
        if before is None or before.settled or _reopened(before, open_now):
            before = EpochCost(epoch=number)
        return self._added(before, open_now, is_open=is_open)

    def _added(self, row: EpochCost, open_now: set[str], *, is_open: bool) -> EpochCost:
        final: dict[str, float] = {}
        running: dict[str, float] = {}
        for subtask, infos in self._uncounted(row).items():
            if self.world.attempts.fetched >= self.fetch_until:
                running[subtask] = 0.0
                continue
            busy = any(one.modified_at >= self.quiet_since for one in infos)
            group = running if busy or subtask in open_now else final
            group[subtask] = sum(self._seconds(info) for info in infos)
        counted = row.counted_seconds + sum(final.values())
        if not is_open and not running:
            return EpochCost(
                epoch=row.epoch, worker_seconds=counted, counted_seconds=counted, settled=True
            )
        return EpochCost(
            epoch=row.epoch,
            worker_seconds=max(row.worker_seconds, counted + sum(running.values())),
            counted_seconds=counted,
            trained=row.trained.union(_numbers(final, evaluated=False)),
            evaluated=row.evaluated.union(_numbers(final, evaluated=True)),
        )

    def _uncounted(self, row: EpochCost) -> dict[str, list[ObjectInfo]]:
        found: dict[str, list[ObjectInfo]] = defaultdict(list)
        prefix = attempts_prefix(self.head.job, row.epoch)
        for info, key in keyed(self.world.store, prefix, AttemptKey):
            if not _is_counted(row, key.subtask):
                found[key.subtask].append(info)
        return found

    def _seconds(self, info: ObjectInfo) -> float:
        attempt = self.world.attempts.read(info, self.head)
        if attempt is None:
            return 0.0
        # A worker's clock that jumped must not spend the budget: no attempt is older than its job.
        longest = max(timedelta(0), info.modified_at - self.head.started_at)
        return min(lasted(attempt), longest).total_seconds()


def _is_counted(row: EpochCost, subtask: str) -> bool:
    counted = row.evaluated if _is_evaluation(subtask) else row.trained
    return counted.has(_number(subtask))


def _reopened(row: EpochCost, open_now: set[str]) -> bool:
    """Return whether a dead subtask that is counted was redriven."""
    return any(_is_counted(row, subtask) for subtask in open_now)


def _numbers(subtasks: Iterable[str], *, evaluated: bool) -> Bitmap:
    return Bitmap.of(_number(one) for one in subtasks if _is_evaluation(one) == evaluated)


def _is_evaluation(subtask: str) -> bool:
    return subtask.startswith("evaluate")


def _number(subtask: str) -> int:
    return SubtaskName.parse(subtask).shard or 0
