"""``estimate``: what a job will take, before it runs; every number with where it comes from.

Gathers what is known, asks ``planning`` and hands one document over: to JSON as it is, to
``estimate_text`` for a person. Nothing is written anywhere.
"""

from collections.abc import Iterator
from pathlib import Path

from spotgrad.cli.advice import advice
from spotgrad.cli.estimate_document import JOB_NOTES, PEERS_NOTES, Averaging, Estimate, Outlook
from spotgrad.cli.estimate_inputs import BYTES_PER_PARAMETER, Inputs, Wishes, gather
from spotgrad.cli.estimate_text import say_estimate
from spotgrad.cli.job import load_job
from spotgrad.cli.output import Output
from spotgrad.cli.pace import duration_text
from spotgrad.cli.peers import collaboration_of, peer_groups
from spotgrad.errors import InvalidJob
from spotgrad.planning.bill import Bill, Prices, bill, transfers
from spotgrad.planning.forecast import Capacity, Forecast, Work, forecast, work_of
from spotgrad.planning.step_time import Exchange, least_seconds, step_times
from spotgrad.ports import ObjectReader
from spotgrad.protocol.job import JobSpec

__all__ = ["estimate", "prepare"]


def estimate(path: Path, wishes: Wishes, store: ObjectReader | None, output: Output) -> None:
    """Print what a job will take.

    Raises:
        InvalidJob: the job file or an option is wrong, or too little is known.
    """
    spec = load_job(path).spec
    made = prepare(spec, gather(spec, wishes, store), wishes.peers)
    for warning in made.warnings:
        output.warn(warning)
    output.document(made)
    say_estimate(made, output)


def prepare(spec: JobSpec, inputs: Inputs, peers: str | None) -> Estimate:
    """Return the estimate.

    Raises:
        InvalidJob: nobody knows how long a subtask takes, or the peers cannot average.
    """
    averaging = None if peers is None else _averaging(inputs, peers)
    if inputs.subtask_seconds is None and averaging is None:
        raise InvalidJob(
            "estimate: nobody knows how long a subtask takes; give --subtask-seconds, or --bucket "
            "where a job like this was trained, such as .spotgrad/JOB/bucket (and --like JOB)"
        )
    outlook = _outlook(spec, inputs)
    shards = None if inputs.shards.assumed else inputs.shards.value
    warnings = [*advice(spec, shards), *_warnings(spec, inputs, outlook)]
    notes = [*(JOB_NOTES if outlook else ()), *(PEERS_NOTES if averaging else ())]
    return Estimate(spec.name, inputs, outlook, averaging, warnings, notes)


def _outlook(spec: JobSpec, inputs: Inputs) -> Outlook | None:
    if inputs.subtask_seconds is None:
        return None
    seconds, turnaround = inputs.subtask_seconds.value, inputs.turnaround_seconds.value
    work = work_of(spec, inputs.shards.value, seconds, turnaround)
    expected = forecast(work, _capacity(spec, inputs))
    parameters, shard_bytes = inputs.parameters, inputs.shard_bytes
    return Outlook(
        work=work,
        forecast=expected,
        cost=_cost(work, expected, inputs),
        transfers=None
        if parameters is None
        else transfers(
            work,
            parameters.value * BYTES_PER_PARAMETER,
            None if shard_bytes is None else shard_bytes.value,
        ),
    )


def _capacity(spec: JobSpec, inputs: Inputs) -> Capacity:
    return Capacity(
        preemption=inputs.preemption.value,
        notice_seconds=inputs.notice_seconds.value,
        boot_seconds=inputs.boot_seconds.value,
        lease_seconds=inputs.lease_seconds.value,
        interruptions_allowed=spec.retries.interruptions,
    )


def _cost(work: Work, expected: Forecast, inputs: Inputs) -> Bill | None:
    if inputs.usd_per_hour is None:
        return None
    on_demand = inputs.on_demand_usd_per_hour
    prices = Prices(
        usd_per_hour=inputs.usd_per_hour.value,
        on_demand_usd_per_hour=None if on_demand is None else on_demand.value,
        extra_samples=inputs.extra_samples.value,
    )
    return bill(work, expected.with_notice, expected.undisturbed_seconds, prices)


def _averaging(inputs: Inputs, peers: str) -> Averaging:
    groups = peer_groups(peers)
    if inputs.parameters is None:
        raise InvalidJob(
            "--peers: nobody knows how large the model is; give --parameters, or --bucket where a "
            "job like this was trained"
        )
    exchange = Exchange(
        parameters=inputs.parameters.value,
        bits=inputs.bits.value,
        efficiency=inputs.efficiency.value,
        target_batch=None if inputs.target_batch is None else inputs.target_batch.value,
    )
    collaboration = collaboration_of(groups)
    strategies = step_times(collaboration, exchange)
    return Averaging(groups, exchange, strategies, least_seconds(collaboration, exchange))


def _warnings(spec: JobSpec, inputs: Inputs, outlook: Outlook | None) -> Iterator[str]:
    if outlook is None:
        return
    seconds, notice = outlook.work.subtask_seconds, inputs.notice_seconds.value
    if seconds > notice:
        yield (
            f"subtask: {duration_text(seconds)}, longer than the notice of {notice:g} s, so many "
            "a preempted one is handed over; more --shards make subtasks shorter"
        )
    lasts = None if spec.budget is None else spec.budget.lasts
    wall = outlook.forecast.with_notice.wall_seconds
    if lasts is not None and lasts.total_seconds() < wall:
        yield (
            f"budget.deadline: it comes before the expected end, {duration_text(wall)} after the "
            "start; the job would end DEGRADED"
        )
    limit = None if spec.budget is None else spec.budget.max_usd
    if limit is not None and outlook.cost is not None and limit < outlook.cost.attempts_usd:
        yield (
            f"budget.max_usd: {limit:g} is less than the {outlook.cost.attempts_usd:.2f} USD that "
            "its attempts are expected to cost; the job would end DEGRADED"
        )
