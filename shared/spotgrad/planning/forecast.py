"""Forecast: how long a job takes, and what preemption does to it.

Expectations from a handful of numbers: nothing is looked up. Not counted: evaluation, functions,
and the second copies of stragglers, which shorten the tail of an epoch. Invariant: against an event
simulation the wall time is within 20% (the tests have it). All times are in seconds.
"""

import math
from dataclasses import dataclass
from typing import Final

from spotgrad.planning.preemption import (
    interruptions,
    job_by_the_paper,
    job_exactly,
    last_done,
    latency_by_deadline,
    latency_drained,
    latency_given_back,
    latency_resumed,
    lost_runs,
    unfinished,
)
from spotgrad.protocol.job import JobSpec

SECONDS_PER_HOUR: Final = 3600
SILENCE: Final = 5 / 6
"""A worker extends its lease every third of it, so on average so much of it is left."""
_MOST_WAVES: Final = 2000


@dataclass(frozen=True)
class Work:
    """What there is to do: ``epochs`` times ``shards`` subtasks, ``slots`` at once."""

    epochs: int
    shards: int
    slots: int
    barrier: bool
    """An epoch begins when the one before is done; else a shard follows itself."""
    subtask_seconds: float
    """How long a subtask takes that is not interrupted, its transfers included."""
    turnaround_seconds: float = 0.0
    """From the last result of an epoch to the first subtask of the next."""

    @property
    def subtasks(self) -> int:
        """Return the number of training subtasks."""
        return self.epochs * self.shards

    @property
    def sequential(self) -> float:
        """Return how many subtasks a slot works through: ``n`` of the paper."""
        return self.subtasks / self.slots

    @property
    def busy_seconds(self) -> float:
        """Return the time that all subtasks take, each done once."""
        return self.subtasks * self.subtask_seconds


@dataclass(frozen=True)
class Capacity:
    """How machines come and go."""

    preemption: float
    """The probability that one run of a subtask is cut off."""
    notice_seconds: float
    boot_seconds: float
    """From asking for a machine to its first subtask."""
    lease_seconds: float
    interruptions_allowed: int
    """``retries.interruptions`` of the job file."""


@dataclass(frozen=True)
class Course:
    """How a job goes in one case; expected values."""

    wall_seconds: float
    """From the submission to the last result, the first machines' start included."""
    latency_seconds: float
    """Of one subtask, from its beginning to its result."""
    interruptions: float
    """Runs that a preemption ended or cut off."""
    lost_seconds: float
    """Work that is done twice."""
    attempt_seconds: float
    """What the job's own account of attempts adds up to, which its budget is compared with."""
    dead: float = 0.0
    """Subtasks that are given up after too many interruptions."""


@dataclass(frozen=True)
class Latencies:
    """From a subtask's beginning to its result, by what becomes of a run that is cut off."""

    found_late_seconds: float
    """It is missed at the deadline alone."""
    given_back_seconds: float
    """It is given back at once, its work lost."""
    drained_seconds: float
    """It is finished where the notice suffices, else given back."""
    resumed_seconds: float
    """Another machine starts and goes on where it was left."""


@dataclass(frozen=True)
class Forecast:
    """The same job in several cases."""

    undisturbed_seconds: float
    paper_seconds: float
    """VC-ASGD's formula: each loss holds its slot up for a deadline, counted from the start."""
    exact_seconds: float
    """The same, with repeated runs as likely to be lost."""
    deadline_seconds: float
    """The deadline in both: how long after its start a vanished run is sent again here."""
    with_notice: Course
    without_notice: Course
    latencies: Latencies


def work_of(
    spec: JobSpec, shards: int, subtask_seconds: float, turnaround_seconds: float = 0.0
) -> Work:
    """Return the work of a job; a shard is out once at a time, so more slots stay empty."""
    return Work(
        epochs=spec.epochs,
        shards=shards,
        slots=min(spec.in_flight, shards),
        barrier=spec.schedule.issue == "barrier",
        subtask_seconds=subtask_seconds,
        turnaround_seconds=turnaround_seconds,
    )


def forecast(work: Work, capacity: Capacity) -> Forecast:
    """Return what is to be expected."""
    t_e, p = work.subtask_seconds, capacity.preemption
    deadline = t_e / 2 + SILENCE * capacity.lease_seconds
    return Forecast(
        undisturbed_seconds=capacity.boot_seconds + _wall(work, t_e, 0.0, 0.0),
        paper_seconds=job_by_the_paper(work.sequential, t_e, p, deadline),
        exact_seconds=job_exactly(work.sequential, t_e, p, deadline),
        deadline_seconds=deadline,
        with_notice=_with_notice(work, capacity),
        without_notice=_without_notice(work, capacity, deadline),
        latencies=Latencies(
            found_late_seconds=latency_by_deadline(t_e, p, deadline),
            given_back_seconds=latency_given_back(t_e, p),
            drained_seconds=latency_drained(t_e, p, capacity.notice_seconds),
            resumed_seconds=latency_resumed(t_e, p, capacity.boot_seconds),
        ),
    )


def _with_notice(work: Work, capacity: Capacity) -> Course:
    """A worker finishes what fits; else it saves a partial, and another goes on from there."""
    t_e, boot = work.subtask_seconds, capacity.boot_seconds
    cut = unfinished(t_e, capacity.notice_seconds)
    times = interruptions(capacity.preemption)
    # Whoever goes on may be the machine that replaces this one: the longest it can take.
    wall = _wall(work, t_e + times * boot, boot, capacity.preemption * cut)
    return Course(
        wall_seconds=boot + wall,
        latency_seconds=t_e + times * cut * boot,
        interruptions=work.subtasks * times,
        lost_seconds=0.0,
        attempt_seconds=work.busy_seconds,
    )


def _without_notice(work: Work, capacity: Capacity, deadline: float) -> Course:
    """A worker vanishes; when its lease runs out, the queue gives the subtask to another."""
    t_e, p = work.subtask_seconds, capacity.preemption
    lost = lost_runs(p)
    slot = t_e + lost * (t_e / 2 + capacity.boot_seconds)
    again = work.subtasks * lost * t_e / 2
    return Course(
        wall_seconds=capacity.boot_seconds + _wall(work, slot, deadline, p),
        latency_seconds=t_e + lost * deadline,
        interruptions=work.subtasks * lost,
        lost_seconds=again,
        attempt_seconds=work.busy_seconds + again,
        dead=work.subtasks * p ** (capacity.interruptions_allowed + 1),
    )


def _wall(work: Work, slot_seconds: float, delay_seconds: float, p: float) -> float:
    """Return when the last result is there, of runs that begin every ``slot_seconds``."""
    at_once = work.shards if work.barrier else work.subtasks
    starts = _waves(at_once, work.slots, slot_seconds)
    last = last_done(starts, work.subtask_seconds, p, delay_seconds)
    return (work.epochs if work.barrier else 1) * (last + work.turnaround_seconds)


def _waves(subtasks: int, slots: int, slot_seconds: float) -> list[tuple[float, int]]:
    """Return when subtasks begin and how many; the first of very many waves matter no more."""
    waves = math.ceil(subtasks / slots)
    late = range(max(0, waves - _MOST_WAVES), waves)
    return [(wave * slot_seconds, min(slots, subtasks - wave * slots)) for wave in late]
