"""The arguments and options that commands share, and what each may hold. No command is here."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from spotgrad.errors import Malformed
from spotgrad.protocol.key_grammar import rendered

__all__ = [
    "AnyBucket",
    "AnyCopy",
    "AnyJobName",
    "AnyTarget",
    "AnyVersion",
    "AsJson",
    "Bucket",
    "Copy",
    "DatasetName",
    "JobFile",
    "JobName",
    "Stack",
    "Target",
    "Version",
    "VersionNumber",
    "any_job_name",
]

Copy = Literal["server", "ema"]
"""Which copy of a version: the server's own, or its average."""

_BUCKET = typer.Option(
    "--bucket",
    envvar="SPOTGRAD_BUCKET",
    help="A bucket's name, a directory like one, or stack:NAME for the bucket of a stack.",
)


def _job_name(value: str) -> str:
    return _in_grammar("job", value)


def any_job_name(value: str | None) -> str | None:
    """Return a job's name that may be left out, having checked it."""
    return None if value is None else _job_name(value)


def _dataset_name(value: str) -> str:
    return _in_grammar("dataset", value)


def _in_grammar(field: str, value: str) -> str:
    try:
        return rendered(field, value)
    except Malformed as error:
        raise typer.BadParameter(
            f"{value!r} is no name of a {field}: lower-case letters, digits and hyphens, at most 63"
        ) from error


JobFile = Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job file.")]
JobName = Annotated[str, typer.Argument(metavar="JOB", help="The job's name.", callback=_job_name)]
AnyJobName = Annotated[
    str | None, typer.Argument(metavar="[JOB]", help="The job's name.", callback=any_job_name)
]
DatasetName = Annotated[
    str, typer.Argument(metavar="NAME", help="The data set's name.", callback=_dataset_name)
]
Bucket = Annotated[str, _BUCKET]
AnyBucket = Annotated[str | None, _BUCKET]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Stack = Annotated[
    str, typer.Option("--stack", envvar="SPOTGRAD_STACK", help="The deployment's stack.")
]
VersionNumber = Annotated[int, typer.Option("--version", min=0, help="The number of a version.")]
Target = Annotated[Path, typer.Option("--output", help="A file, or a folder to put it in.")]
AnyTarget = Annotated[Path | None, typer.Option("--output", help="Where to write the model.")]
AnyVersion = Annotated[
    int | None,
    typer.Option("--version", min=0, help="A version.", show_default="the final, or the latest"),
]
AnyCopy = Annotated[
    Copy | None,
    typer.Option("--copy", help="Which copy of it.", show_default="ema where there is one"),
]


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it with the flag's value
    from importlib.metadata import version

    if wanted:
        typer.echo(f"spotgrad {version('spotgrad')}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Say which this is."),
]
