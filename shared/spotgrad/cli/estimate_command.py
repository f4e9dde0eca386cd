"""The options of ``estimate``, and nothing else: what they mean is in ``estimate_inputs``."""

from typing import Annotated, Final

import typer

from spotgrad.cli.options import AnyBucket, AsJson, JobFile, any_job_name
from spotgrad.cli.output import Output
from spotgrad.cli.where import open_store

__all__ = ["estimate"]

_LEAST: Final = 0.001
_LONGEST: Final = 1e7
_DEAREST: Final = 10_000.0

SubtaskSeconds = Annotated[
    float | None,
    typer.Option(min=_LEAST, max=_LONGEST, help="How long a subtask takes, transfers included."),
]
Shards = Annotated[int | None, typer.Option(min=1, max=900_000, help="Training shards.")]
Parameters = Annotated[
    str | None, typer.Option(metavar="COUNT", help="Size of the model, such as 25.6M.")
]
Like = Annotated[
    str | None,
    typer.Option(metavar="JOB", callback=any_job_name, help="A job in the bucket to measure by."),
]
Preemption = Annotated[
    float | None, typer.Option(min=0, max=0.9, help="Chance that one run of a subtask is cut off.")
]
PreemptionsPerHour = Annotated[
    float | None, typer.Option(min=0, max=3600, help="Instead: of one machine, by the hour; 0.05.")
]
NoticeSeconds = Annotated[
    float | None, typer.Option(min=0, max=_LONGEST, help="Warning before it is; 120.")
]
BootSeconds = Annotated[
    float | None, typer.Option(min=0, max=_LONGEST, help="Until a new machine works; 180.")
]
LeaseSeconds = Annotated[
    float | None, typer.Option(min=_LEAST, max=_LONGEST, help="The stack's lease; 120.")
]
TurnaroundSeconds = Annotated[
    float | None, typer.Option(min=0, max=_LONGEST, help="From one epoch to the next; 0.")
]
Price = Annotated[
    float | None, typer.Option(min=1e-6, max=_DEAREST, help="USD an hour that a worker costs.")
]
OnDemandPrice = Annotated[
    float | None, typer.Option(min=1e-6, max=_DEAREST, help="The same machine on demand.")
]
ExtraSamples = Annotated[
    float | None,
    typer.Option(min=0.1, max=100, help="Samples for equal accuracy, against one machine; 1."),
]
Peers = Annotated[
    str | None,
    typer.Option(metavar="GROUPS", help="Machines that average, such as 8x1Gb/s,16x200Mb/s@40."),
]
Bits = Annotated[
    int | None, typer.Option(min=1, max=64, help="Of each number they send; the job's, or 16.")
]
Efficiency = Annotated[
    float | None, typer.Option(min=0.01, max=1, help="Of a link's bandwidth that is used; 0.7.")
]
TargetBatch = Annotated[
    int | None,
    typer.Option(min=1, max=10**12, help="Samples of a step, over all peers; the job's."),
]


def estimate(  # noqa: PLR0913 - typer reads one parameter per option
    job_file: JobFile,
    *,
    subtask_seconds: SubtaskSeconds = None,
    shards: Shards = None,
    parameters: Parameters = None,
    like: Like = None,
    preemption: Preemption = None,
    preemptions_per_hour: PreemptionsPerHour = None,
    notice_seconds: NoticeSeconds = None,
    boot_seconds: BootSeconds = None,
    lease_seconds: LeaseSeconds = None,
    turnaround_seconds: TurnaroundSeconds = None,
    price: Price = None,
    on_demand_price: OnDemandPrice = None,
    extra_samples: ExtraSamples = None,
    peers: Peers = None,
    bits: Bits = None,
    link_efficiency: Efficiency = None,
    target_batch: TargetBatch = None,
    bucket: AnyBucket = None,
    as_json: AsJson = False,
) -> None:
    """Say what a job will take: time, money, losses; and how peers would average."""
    from spotgrad.cli.estimate import estimate
    from spotgrad.cli.estimate_inputs import Wishes

    wishes = Wishes(
        subtask_seconds=subtask_seconds,
        shards=shards,
        parameters=parameters,
        like=like,
        preemption=preemption,
        preemptions_per_hour=preemptions_per_hour,
        notice_seconds=notice_seconds,
        boot_seconds=boot_seconds,
        lease_seconds=lease_seconds,
        turnaround_seconds=turnaround_seconds,
        usd_per_hour=price,
        on_demand_usd_per_hour=on_demand_price,
        extra_samples=extra_samples,
        peers=peers,
        bits=bits,
        efficiency=link_efficiency,
        target_batch=target_batch,
    )
    store = None if bucket is None else open_store(bucket)
    estimate(job_file, wishes, store, Output(as_json=as_json))
