"""Measure: what a job's records in the bucket tell about the next one like it.

Reads alone, and few records: the newest epochs'. Only attempts that came to a result count; how
long one took is a difference of one worker's clock.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import mean, median
from typing import Final

from spotgrad.ports import ObjectReader
from spotgrad.protocol.attempt import Attempt
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import AttemptKey, attempts_prefix
from spotgrad.steps.attempt_reader import AttemptReader, lasted
from spotgrad.steps.documents import find_head, keyed, read_plan

ENOUGH: Final = 200
"""So many attempts make a mean; the epochs before are not read."""


@dataclass(frozen=True)
class Measured:
    """What the newest attempts at training subtasks say."""

    attempts: int
    attempt_seconds: float
    gap_seconds: float
    """From the end of an attempt to the next one by the same worker in the same epoch: the median,
    since a worker that finds the queue empty waits."""
    turnaround_seconds: float | None
    """From an epoch's last result to the next one's first start; None for less than two epochs.
    By several workers' clocks."""
    model_bytes: int | None
    """The newest version, as stored."""

    @property
    def subtask_seconds(self) -> float:
        """Return how long a worker is taken by one subtask."""
        return self.attempt_seconds + self.gap_seconds


def measure_job(store: ObjectReader, job: str) -> Measured | None:
    """Return what was measured; None when no such job is there, or none of it was trained yet.

    Raises:
        Malformed: its head or plan is damaged.
    """
    found = find_head(store, job)
    if found is None:
        return None
    head = found.head
    epochs = list(_newest(store, head))
    attempts = [one for epoch in epochs for one in epoch]
    if not attempts:
        return None
    server = head.objects.get("server")
    return Measured(
        attempts=len(attempts),
        attempt_seconds=mean(lasted(one).total_seconds() for one in attempts),
        gap_seconds=median(_gaps(epochs) or [0.0]),
        turnaround_seconds=_turnaround(epochs),
        model_bytes=None if server is None else server.size_bytes,
    )


def _newest(store: ObjectReader, head: Head) -> Iterator[list[Attempt]]:
    """Yield the attempts of one epoch after the other, from the newest back."""
    reader, read = AttemptReader(store), 0
    for epoch in range(_last_epoch(store, head), 0, -1):
        infos = keyed(store, attempts_prefix(head.job, epoch), AttemptKey)
        found = [reader.read(info, head) for info, key in infos if key.subtask.startswith("train-")]
        uploaded = [one for one in found if one is not None and one.outcome == "uploaded"]
        if uploaded:
            yield uploaded
        read += len(uploaded)
        if read >= ENOUGH:
            return


def _last_epoch(store: ObjectReader, head: Head) -> int:
    """Return an epoch after which none can have begun."""
    plan = read_plan(store, head.job)
    begun = math.ceil(head.results_merged / plan.train_shards) + plan.spec.schedule.max_epoch_lead
    return min(plan.spec.epochs, begun + 1)


def _turnaround(epochs: list[list[Attempt]]) -> float | None:
    gaps = [_begun(later) - _ended(earlier) for later, earlier in pairwise(epochs)]
    return mean(max(0.0, gap.total_seconds()) for gap in gaps) if gaps else None


def _gaps(epochs: list[list[Attempt]]) -> list[float]:
    gaps = []
    for attempts in epochs:
        in_order = sorted(attempts, key=lambda one: (one.worker, one.started_at))
        for earlier, later in pairwise(in_order):
            if earlier.worker == later.worker:
                gaps.append(max(0.0, (later.started_at - earlier.beat_at).total_seconds()))
    return gaps


def _begun(attempts: list[Attempt]) -> datetime:
    return min(one.started_at for one in attempts)


def _ended(attempts: list[Attempt]) -> datetime:
    return max(one.beat_at for one in attempts)
