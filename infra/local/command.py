"""``spotgrad local run``: train a job on this machine through the whole pipeline."""

from pathlib import Path
from typing import Annotated, Any

import typer

from infra.local.chaos.aftermath import read_aftermath
from infra.local.chaos.spec import parse_chaos
from infra.local.home import Home
from infra.local.run import LocalRun, Outcome, RunOptions, local_run
from spotgrad.cli.display import open_display, state_style
from spotgrad.cli.job import load_job
from spotgrad.cli.output import Output
from spotgrad.cli.pull import pull_model
from spotgrad.directory.store import DirectoryStore
from spotgrad.errors import InvalidJob
from spotgrad.ports import ObjectReader
from spotgrad.protocol.head import Head
from spotgrad.steps.audit import audit
from spotgrad.steps.chain import read_head
from spotgrad.system import SystemClock

app = typer.Typer(help="Run the whole pipeline on this machine.", no_args_is_help=True)

SUCCEEDED, FAILED = 0, 1


@app.callback()
def local() -> None:
    """Run the whole pipeline on this machine."""


@app.command()
def run(  # noqa: PLR0913 -- a parameter is an option
    job_file: Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job file.")],
    *,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 2,
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
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Train JOB.yaml here: a local AWS, the three functions, and real worker processes."""
    if resume and fresh:
        raise InvalidJob("--resume and --fresh: choose one")
    faults = None if chaos is None else parse_chaos(chaos)
    options = RunOptions(
        load_job(job_file), workers, dataset, resume=resume, fresh=fresh, chaos=faults
    )
    home = Home(options.job.spec.name)
    output = Output(as_json=as_json)
    output.say(f"logs: {home.logs}", style="dim")
    try:
        with local_run(options, home) as running:
            _follow(running, output)
    except KeyboardInterrupt:
        output.say(f"interrupted; go on with: spotgrad local run {job_file} --resume")
        raise
    raise typer.Exit(_report(running, home, output))


def _follow(running: LocalRun, output: Output) -> None:
    with open_display(output, SystemClock()) as display:
        running.watch(display.update)
    running.drain()


def _report(running: LocalRun, home: Home, output: Output) -> int:
    """Pull the model, audit the bucket, say how it went; return the exit code."""
    store = DirectoryStore(home.bucket)
    head = read_head(store, home.job) if running.outcome.status else None
    model = _pull(store, head, home)
    findings = audit(store, home.job).findings if head else ()
    status = running.outcome.status
    document: dict[str, Any] = {} if status is None else status.model_dump(by_alias=True)
    document |= {
        "model": model,
        "audit": list(findings) or "clean",
        "chaos": running.outcome.chaos,
        "leftover": {
            "messages": sum(running.outcome.leftover_messages.values()),
            "processes": len(running.fleet.pids),
        },
    }
    output.document(document)
    _summary(output, document, home)
    if running.outcome.chaos and head:
        _say_chaos(running.outcome, store, output)
    return SUCCEEDED if document.get("state") == "SUCCEEDED" and not findings else FAILED


def _say_chaos(outcome: Outcome, store: ObjectReader, output: Output) -> None:
    """Say what was injected and what became of it."""
    job = outcome.status.job if outcome.status else ""
    after = read_aftermath(store, job, outcome.functions, outcome.workers_replaced)
    output.say()
    rows = [(kind, count, after.of(kind)) for kind, count in sorted(outcome.chaos.items())]
    output.table(("chaos", "injected", "what became of it"), rows)


def _pull(store: ObjectReader, head: Head | None, home: Home) -> Path | None:
    """Write the final model, or the latest there is, beside the bucket."""
    if head is None or head.model is None:
        return None
    return pull_model(store, home.job, None, home.model).path


def _summary(output: Output, document: dict[str, Any], home: Home) -> None:
    state, reason = document.get("state"), document.get("reason")
    output.say()
    output.say(f"{state}{f': {reason}' if reason else ''}", style=state_style(str(state)))
    for name, value in sorted(document.get("metrics", {}).items()):
        output.say(f"  {name:10} {value:.4f}")
    counts = document.get("subtasks", {})
    output.say(f"  {'merged':10} {counts.get('merged')} of {counts.get('total')} subtasks")
    output.say(f"  {'version':10} {document.get('version')}")
    audited = document["audit"]
    output.say(f"  {'audit':10} {audited if audited == 'clean' else '; '.join(audited)}")
    if document["model"]:
        output.say(f"  {'model':10} {document['model']}")
        output.say()
        output.say("next:")
        output.say(
            f"  safetensors.torch.load_file('{document['model']}')  # into your task's model"
        )
        output.say(f"  spotgrad versions {home.job} --bucket {home.bucket}")
        output.say(f"  spotgrad audit {home.job} --bucket {home.bucket}")
