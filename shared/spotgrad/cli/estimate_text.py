"""An estimate as a person reads it: what it rests on first, then time, money, bytes and peers."""

from collections.abc import Iterator
from typing import Final

from spotgrad.cli.estimate_document import Averaging, Estimate, Outlook
from spotgrad.cli.estimate_inputs import Inputs, Known
from spotgrad.cli.output import Output, size_text
from spotgrad.cli.pace import duration_text
from spotgrad.planning.averaging import Shares
from spotgrad.planning.forecast import Course, Latencies
from spotgrad.planning.step_time import StepTime

__all__ = ["say_estimate", "seconds_text"]

_SHOWN_DEAD: Final = 0.001


def say_estimate(made: Estimate, output: Output) -> None:
    """Print it."""
    output.say(f"{made.job}  estimate", "cyan")
    output.table(["RESTS ON", "", "WHERE FROM"], list(_inputs(made.inputs, made)))
    if made.outlook is not None:
        _say_outlook(made.outlook, output)
    if made.averaging is not None:
        _say_averaging(made.averaging, output)
    output.say()
    for note in made.notes:
        output.say(f"note: {note}")


def seconds_text(seconds: float) -> str:
    """Return a duration; below a minute to three digits."""
    return f"{seconds:.3g} s" if seconds < 59.95 else duration_text(seconds)


def _inputs(inputs: Inputs, made: Estimate) -> Iterator[list[object]]:
    """Yield only what the sections that are printed rest on."""
    job = made.outlook is not None
    peers = made.averaging is not None
    rows: list[tuple[bool, str, Known[float] | Known[int] | None, str]] = [
        (job, "a subtask", inputs.subtask_seconds, "{:.3g} s"),
        (job, "shards", inputs.shards, "{}"),
        (job, "between epochs", inputs.turnaround_seconds, "{:.3g} s"),
        (True, "parameters", inputs.parameters, "{:,}"),
        (job, "a shard", inputs.shard_bytes, "{:,} bytes"),
        (job, "a run is preempted", inputs.preemption, "{:.3g}"),
        (job, "notice", inputs.notice_seconds, "{:g} s"),
        (job, "a machine's start", inputs.boot_seconds, "{:g} s"),
        (job, "lease", inputs.lease_seconds, "{:g} s"),
        (job, "a worker costs", inputs.usd_per_hour, "{:g} USD/h"),
        (job, "on demand", inputs.on_demand_usd_per_hour, "{:g} USD/h"),
        (job, "extra samples", inputs.extra_samples, "{:g} x"),
        (peers, "a number sent", inputs.bits, "{} bits"),
        (peers, "of a link's bandwidth", inputs.efficiency, "{:.0%}"),
        (peers, "target batch", inputs.target_batch, "{:,} samples"),
    ]
    for wanted, label, known, form in rows:
        if wanted:
            value = None if known is None else form.format(known.value)
            yield [label, value, "not known" if known is None else known.source]


def _say_outlook(outlook: Outlook, output: Output) -> None:
    work, expected = outlook.work, outlook.forecast
    issue = "a barrier after each epoch" if work.barrier else "rolling"
    output.say()
    output.say(
        f"{work.epochs * work.shards:,} subtasks: {work.epochs:,} epochs of {work.shards:,}, "
        f"{work.slots:,} at once, {issue}"
    )
    output.say()
    rows: list[list[object]] = [
        ["no preemption", duration_text(expected.undisturbed_seconds), *[None] * 4],
        ["with notice", *_course(expected.with_notice)],
        ["without notice", *_course(expected.without_notice)],
        ["VC-ASGD's formula", duration_text(expected.paper_seconds), *[None] * 4],
        ["  with repeated losses", duration_text(expected.exact_seconds), *[None] * 4],
    ]
    output.table(["TIME", "JOB", "A SUBTASK", "INTERRUPTED", "DONE TWICE", "DEAD"], rows)
    output.say(
        "  formula: n (t_e + p t_o), exactly n (t_e + t_o p / (1 - p)), n = "
        f"{work.subtasks / work.slots:g}, t_o = {seconds_text(expected.deadline_seconds)}; "
        "no start of machines, no barrier"
    )
    _say_latencies(expected.latencies, output)
    _say_cost(outlook, output)
    _say_transfers(outlook, output)


def _course(course: Course) -> list[object]:
    return [
        duration_text(course.wall_seconds),
        seconds_text(course.latency_seconds),
        f"{course.interruptions:.3g}",
        duration_text(course.lost_seconds),
        f"{course.dead:.2g}" if course.dead >= _SHOWN_DEAD else "0",
    ]


def _say_latencies(found: Latencies, output: Output) -> None:
    output.say()
    rows = [
        ("is missed at the deadline t_o alone", found.found_late_seconds),
        ("is given back at once, its work lost", found.given_back_seconds),
        ("is finished within the notice, else given back", found.drained_seconds),
        ("goes on from a partial, on a new machine", found.resumed_seconds),
    ]
    header = ["A SUBTASK, IF A PREEMPTED RUN", "TAKES"]
    output.table(header, [[label, seconds_text(seconds)] for label, seconds in rows])


def _say_cost(outlook: Outlook, output: Output) -> None:
    cost = outlook.cost
    output.say()
    if cost is None:
        output.say("cost: nobody has said a price; give --price, or workers.usd_per_hour")
        return
    alone = duration_text(cost.one_machine_seconds)
    rows = [
        ["this job, with notice", _usd(cost.usd)],
        ["  of it in attempts (what budget.max_usd counts)", _usd(cost.attempts_usd)],
        ["the same machines on demand", _usd(cost.fleet_on_demand_usd)],
        [f"one machine on demand, in {alone}", _usd(cost.one_machine_usd)],
        ["saved against one machine", _percent(cost.saved_percent)],
    ]
    output.table(["COST", "USD"], rows)


def _say_transfers(outlook: Outlook, output: Output) -> None:
    moved = outlook.transfers
    output.say()
    if moved is None:
        output.say("transfers: nobody knows how large the model is; give --parameters")
        return
    most = moved.most_per_subtask_bytes
    shard = "" if most is None else f", {size_text(most)} where its machine lacks the shard"
    output.say(
        f"transfers: {size_text(moved.per_subtask_bytes)} a subtask (a version down, a result up)"
        f"{shard}; {size_text(moved.job_bytes)} of versions and results for the job"
    )


def _say_averaging(averaging: Averaging, output: Output) -> None:
    exchange = averaging.exchange
    output.say()
    output.say(
        f"averaging {exchange.parameters:,} numbers of {exchange.bits} bits among "
        f"{sum(group.count for group in averaging.groups):,} peers, if they did so directly:"
    )
    rows = [_strategy(one, averaging) for one in averaging.strategies]
    output.table(["STRATEGY", "AVERAGING", "STEP", "OVERLAPPED", "SLOWEST"], rows)
    if averaging.least_seconds is not None:
        output.say(f"  no flow at all is faster than {seconds_text(averaging.least_seconds)}")
    output.say("  bucket: gradient up, fp32 version down, as workers of spotgrad do; no merging")
    output.say()
    split = [one for one in averaging.strategies if one.shares is not None]
    header = ["EACH AGGREGATES", *[one.strategy.upper() for one in split]]
    columns = [averaging.by_group(one.shares) for one in split if one.shares is not None]
    output.table(
        header,
        [
            [group.text, *[_share(column[place]) for column in columns]]
            for place, group in enumerate(averaging.groups)
        ],
    )


def _strategy(one: StepTime, averaging: Averaging) -> list[object]:
    slowest = None if one.slowest is None else averaging.group_of(one.slowest).text
    times = (one.averaging_seconds, one.step_seconds, one.overlapped_seconds)
    texts = [None if time is None else seconds_text(time) for time in times]
    return [one.strategy, *texts, slowest]


def _share(shares: Shares) -> str:
    """Return what each peer of a group aggregates; of a server's group one alone does."""
    if min(shares) == max(shares):
        return f"{shares[0]:.2%}"
    return f"one of them {max(shares):.2%}"


def _usd(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{value:,.2f}" if value >= 1 else f"{value:.2g}"


def _percent(value: float | None) -> str | None:
    return None if value is None else f"{value:.0f} %"
