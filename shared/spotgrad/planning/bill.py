"""The bill: a forecast in dollars, against one on-demand machine, and in bytes.

Prices are given: there is no price table. Invariant: what nobody has said is None, never guessed.
"""

from dataclasses import dataclass

from spotgrad.planning.forecast import SECONDS_PER_HOUR, Course, Work


@dataclass(frozen=True)
class Prices:
    """What a machine costs by the hour, in US dollars."""

    usd_per_hour: float
    on_demand_usd_per_hour: float | None = None
    extra_samples: float = 1.0
    """How many times the samples of one machine the merged training needs for the same accuracy."""


@dataclass(frozen=True)
class Bill:
    """What a job costs; requests, functions, storage and evaluation are not in it."""

    usd: float
    """All machines, from the job's beginning to its end."""
    attempts_usd: float
    """The part that the job's own account sees, and ``budget.max_usd`` bounds."""
    fleet_on_demand_usd: float | None
    """The same machines on demand, without preemption."""
    one_machine_usd: float | None
    one_machine_seconds: float
    """One on-demand machine of the same kind, to the same accuracy."""
    saved_percent: float | None
    """Against one on-demand machine; below 0 when that is cheaper."""


def bill(work: Work, course: Course, undisturbed_seconds: float, prices: Prices) -> Bill:
    """Return what a job costs when it goes like this."""
    alone = work.busy_seconds / prices.extra_samples
    usd = _dollars(work.slots * course.wall_seconds, prices.usd_per_hour)
    on_demand = prices.on_demand_usd_per_hour
    fleet = one = saved = None
    if on_demand is not None:
        fleet = _dollars(work.slots * undisturbed_seconds, on_demand)
        one = _dollars(alone, on_demand)
        saved = 100 * (1 - usd / one)
    return Bill(
        usd=usd,
        attempts_usd=_dollars(course.attempt_seconds, prices.usd_per_hour),
        fleet_on_demand_usd=fleet,
        one_machine_usd=one,
        one_machine_seconds=alone,
        saved_percent=saved,
    )


@dataclass(frozen=True)
class Transfers:
    """Bytes between workers and the bucket; heads, attempt records and functions apart."""

    model_bytes: int
    """A version, which a subtask downloads, and its result, which has the same size."""
    shard_bytes: int | None
    """A shard on average; downloaded once by a machine and then kept."""
    per_subtask_bytes: int
    """At least: version and result, the shard being there already."""
    most_per_subtask_bytes: int | None
    """With the shard."""
    job_bytes: int
    """Versions and results of all subtasks."""


def transfers(work: Work, model_bytes: int, shard_bytes: int | None) -> Transfers:
    """Return what a job's subtasks move."""
    both = 2 * model_bytes
    return Transfers(
        model_bytes=model_bytes,
        shard_bytes=shard_bytes,
        per_subtask_bytes=both,
        most_per_subtask_bytes=None if shard_bytes is None else both + shard_bytes,
        job_bytes=work.subtasks * both,
    )


def _dollars(machine_seconds: float, usd_per_hour: float) -> float:
    return machine_seconds / SECONDS_PER_HOUR * usd_per_hour
