"""The commands, their options and their help: a table of contents.

What a command does is in a module of its own, imported when it is called: ``spotgrad --help`` loads
neither numpy nor boto3.
"""

from functools import partial
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from spotgrad.cli.estimate_command import estimate
from spotgrad.cli.options import (
    AnyBucket,
    AnyCopy,
    AnyJobName,
    AnyTarget,
    AnyVersion,
    AsJson,
    Bucket,
    DatasetName,
    JobFile,
    JobName,
    Stack,
    Target,
    Version,
    VersionNumber,
)
from spotgrad.cli.output import Output
from spotgrad.cli.plugins import CommandGroup
from spotgrad.cli.queues import QueueChoice
from spotgrad.cli.where import is_directory, open_store
from spotgrad.system import SystemClock, new_id

__all__ = ["app"]

app = typer.Typer(
    cls=CommandGroup,
    add_completion=False,
    pretty_exceptions_enable=False,
)
dataset = typer.Typer(help="Data sets in the bucket.")
app.add_typer(dataset, name="dataset")
dlq = typer.Typer(help="What failed too often: dead subtasks, and dead-letter queues.")
app.add_typer(dlq, name="dlq")

Source = Annotated[
    Path, typer.Argument(metavar="SOURCE", help="An .npz file, or a .py file with arrays().")
]
Shards = Annotated[
    int | None,
    typer.Option(min=1, max=900_000, help="Training shards.", show_default="the source's, or 16"),
]
Validation = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Share held out from plain columns.", show_default="0.2"),
]
Seed = Annotated[int, typer.Option(min=0, help="Of the shuffle and the validation split.")]
Shuffle = Annotated[bool, typer.Option(help="Spread the samples over the shards at random.")]
Subtasks = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SUBTASK]...", help="Such as train-000003, or 2/train-000003."),
]
All = Annotated[bool, typer.Option("--all", help="Every dead subtask.")]
Queue = Annotated[
    QueueChoice | None,
    typer.Option(
        "--queue", help="Whose dead-letter queue to empty; SPOTGRAD_*_QUEUE_URL say where."
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="With each one's traceback.")]


@app.callback()
def spotgrad(*, version: Version = False) -> None:
    """Train PyTorch models on capacity that may vanish at any moment."""


@app.command()
def validate(job_file: JobFile, *, bucket: AnyBucket = None, as_json: AsJson = False) -> None:
    """Check a job file and its task; with a bucket, its data set too."""
    from spotgrad.cli.submit import validate

    store = None if bucket is None else open_store(bucket)
    validate(job_file, store, Output(as_json=as_json))


app.command()(estimate)


@dataset.command("push")
def dataset_push(  # noqa: PLR0913 - typer reads one parameter per option
    name: DatasetName,
    source: Source,
    *,
    shards: Shards = None,
    validation: Validation = None,
    seed: Seed = 0,
    shuffle: Shuffle = True,
    bucket: Bucket,
    as_json: AsJson = False,
) -> None:
    """Cut a data set into shards and upload it; what is there already is not uploaded again."""
    from spotgrad.cli.data import Options, push

    options = Options(shards, validation, seed, shuffle)
    push(name, source, options, open_store(bucket), _output(bucket, as_json=as_json))


@app.command()
def submit(job_file: JobFile, *, bucket: Bucket, as_json: AsJson = False) -> None:
    """Check a job, then upload its code and its job file: that starts it."""
    from spotgrad.cli.submit import submit

    submit(job_file, open_store(bucket), _output(bucket, as_json=as_json))


@app.command("list")
def list_(*, bucket: Bucket, as_json: AsJson = False) -> None:
    """List the jobs in a bucket."""
    from spotgrad.cli.show import list_all

    list_all(open_store(bucket), SystemClock(), _output(bucket, as_json=as_json))


@app.command()
def status(job: JobName, *, bucket: Bucket, as_json: AsJson = False) -> None:
    """Say how a job stands."""
    from spotgrad.cli.show import show_status

    show_status(open_store(bucket), SystemClock(), job, _output(bucket, as_json=as_json))


@app.command()
def watch(job: JobName, *, bucket: Bucket, as_json: AsJson = False) -> None:
    """Show a job until it ends; the exit code is 0 if it succeeded."""
    from spotgrad.cli.watch import refuse_to_wait, watch

    store, output = open_store(bucket), _output(bucket, as_json=as_json)
    wait = partial(refuse_to_wait, job) if is_directory(bucket) else Event().wait
    _exit(good=watch(store, SystemClock(), job, output, wait))


@app.command()
def pause(job: JobName, *, bucket: Bucket, as_json: AsJson = False) -> None:
    """Let a job rest: results under way are merged, nothing more goes out."""
    from spotgrad.cli.control import pause

    _exit(good=pause(open_store(bucket), SystemClock(), job, _output(bucket, as_json=as_json)))


@app.command()
def resume(job: JobName, *, bucket: Bucket, as_json: AsJson = False) -> None:
    """Let a job go on; everything that is open is sent again."""
    from spotgrad.cli.control import resume

    _exit(
        good=resume(
            open_store(bucket), SystemClock(), new_id, job, _output(bucket, as_json=as_json)
        )
    )


@app.command()
def cancel(job: JobName, *, bucket: Bucket, as_json: AsJson = False) -> None:
    """End a job for good; its versions stay."""
    from spotgrad.cli.control import cancel

    _exit(good=cancel(open_store(bucket), SystemClock(), job, _output(bucket, as_json=as_json)))


@dlq.command("list")
def dlq_list(
    job: AnyJobName = None,
    *,
    verbose: Verbose = False,
    bucket: AnyBucket = None,
    as_json: AsJson = False,
) -> None:
    """List the dead subtasks of a job, and how much lies in the dead-letter queues."""
    from spotgrad.cli.dlq import list_dead
    from spotgrad.cli.queues import list_queues

    output = _output(bucket, as_json=as_json)
    if job is None:
        _exit(good=list_queues(output))
    else:
        list_dead(open_store(_needed(bucket)), job, output, verbose=verbose)


@dlq.command("redrive")
def dlq_redrive(
    job: AnyJobName = None,
    subtasks: Subtasks = None,
    *,
    every: All = False,
    queue: Queue = None,
    bucket: AnyBucket = None,
    as_json: AsJson = False,
) -> None:
    """Try dead subtasks again, also after their epoch closed or their job ended.

    With --queue, send the messages in dead-letter queues back instead; whose they are is not asked.
    """
    from spotgrad.cli.dlq import Wanted, redrive
    from spotgrad.cli.queues import redrive_queues

    output = _output(bucket, as_json=as_json)
    if queue is not None:
        if job is not None or every:
            raise typer.BadParameter("--queue moves messages of all jobs: leave JOB and --all out")
        _exit(good=redrive_queues(queue, output))
    elif job is None:
        raise typer.BadParameter("name a job (its dead subtasks), or --queue (messages)")
    elif bool(subtasks) == every:
        raise typer.BadParameter("name subtasks (spotgrad dlq list shows them), or give --all")
    else:
        where = _needed(bucket)
        redrive(open_store(where), new_id, Wanted(job, subtasks or ()), output)


@app.command()
def versions(job: JobName, *, bucket: Bucket, as_json: AsJson = False) -> None:
    """List the model versions of a job."""
    from spotgrad.cli.versions import versions

    versions(open_store(bucket), job, _output(bucket, as_json=as_json))


@app.command()
def pull(
    job: JobName,
    *,
    version: AnyVersion = None,
    copy: AnyCopy = None,
    output: Target = Path("model.safetensors"),
    bucket: Bucket,
    as_json: AsJson = False,
) -> None:
    """Download a model version."""
    from spotgrad.cli.pull import pull

    told = Output(as_json=as_json)
    pull(open_store(bucket), job, output, told, version=version, copy=copy)


@app.command()
def audit(job: JobName, *, bucket: Bucket, as_json: AsJson = False) -> None:
    """Prove from the bucket that a job is what its ledger says; exit code 1 if it is not."""
    from spotgrad.cli.proof import prove

    _exit(good=prove(open_store(bucket), job, _output(bucket, as_json=as_json)))


@app.command()
def replay(
    job: JobName,
    *,
    version: VersionNumber,
    output: AnyTarget = None,
    bucket: Bucket,
    as_json: AsJson = False,
) -> None:
    """Rebuild a version from the ledger; exit code 1 if it differs from the committed one."""
    from spotgrad.cli.proof import rebuild

    store = open_store(bucket)
    _exit(good=rebuild(store, job, version, output, Output(as_json=as_json)))


@app.command()
def doctor(*, stack: Stack = "spotgrad", as_json: AsJson = False) -> None:
    """Check a deployment: credentials, wiring, machines; exit code 1 if something is wrong."""
    from importlib.metadata import version

    from spotgrad.aws.account import AwsAccount
    from spotgrad.cli.doctor import examine

    output = Output(as_json=as_json)
    _exit(good=examine(AwsAccount(), stack, version("spotgrad"), output))


def _needed(bucket: str | None) -> str:
    if bucket is None:
        raise typer.BadParameter("a job lies in a bucket: give --bucket or set SPOTGRAD_BUCKET")
    return bucket


def _output(bucket: str | None, *, as_json: bool) -> Output:
    at_rest = bucket is not None and is_directory(bucket)
    return Output(as_json=as_json, bucket=bucket, at_rest=at_rest)


def _exit(*, good: bool) -> None:
    if not good:
        raise typer.Exit(1)
