"""``spotgrad local run``: train a job on this machine through the whole pipeline."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from infra.local.chaos.spec import parse_chaos
from infra.local.home import Home
from infra.local.interrupt import interruptible
from infra.local.report import make_report, show_chaos, show_report
from infra.local.run import Outcome, RunOptions, local_run
from spotgrad.cli.display import open_display
from spotgrad.cli.job import load_job
from spotgrad.cli.output import Output
from spotgrad.errors import InvalidJob
from spotgrad.system import SystemClock

app = typer.Typer(help="Run the whole pipeline on this machine.")

SUCCEEDED, FAILED = 0, 1


@app.callback()
def local() -> None:
    """Run the whole pipeline on this machine."""


@app.command()
def run(  # noqa: PLR0913 -- a parameter is an option
    job_file: Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job file.")],
    *,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes at once, at most.")] = 2,
    dataset: Annotated[
        Path | None, typer.Option(help="The data set, when it is not beside the job file.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an unfinished run.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Throw an unfinished run away.")] = False,
    chaos: Annotated[
        str | None,
        typer.Option(
            metavar="FAULTS",
            help="What goes wrong: kill=P,notice=P,duplicate=P,delay=SECONDS,reorder,corrupt=P,"
            "throttle=P,aggregator-crash=P,seed=N",
        ),
    ] = None,
    slow: Annotated[
        list[float] | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Workers of unequal speed: each waits so long in every training subtask. Repeat "
            "it; the workers take one each, in turn.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Train JOB.yaml here: a local AWS, the three functions, and real worker processes."""
    if resume and fresh:
        raise InvalidJob("--resume and --fresh: choose one")
    faults = None if chaos is None else parse_chaos(chaos)
    options = RunOptions(
        load_job(job_file),
        workers,
        dataset,
        resume=resume,
        fresh=fresh,
        slow_seconds=slow or (),
        chaos=faults,
    )
    home = Home(options.job.spec.name)
    output = Output(as_json=as_json)
    most = options.job.spec.workers.max
    if workers > most:
        output.warn(f"workers.max: {most} of {job_file.name} keeps it below --workers {workers}")
    try:
        with interruptible():
            outcome = _train(options, home, output)
    except KeyboardInterrupt:
        if home.unfinished:
            command = shlex.join(["spotgrad", "local", "run", str(job_file), "--resume"])
            typer.echo(f"spotgrad: saved in {home.folder}; go on with: {command}", err=True)
        raise
    report = make_report(outcome, home)
    show_report(report, home, output)
    show_chaos(outcome, home, output)
    raise typer.Exit(SUCCEEDED if report.good else FAILED)


def _train(options: RunOptions, home: Home, output: Output) -> Outcome:
    with local_run(options, home) as running:
        output.say(f"logs: {home.logs}", style="dim")
        with open_display(output, SystemClock()) as display:
            running.watch(display.update)
        running.drain()
    return running.outcome
