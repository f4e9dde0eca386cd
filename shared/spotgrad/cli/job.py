"""The user's job file on disk: its exact bytes and what they say."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spotgrad.errors import InvalidJob
from spotgrad.protocol.job import JobSpec
from spotgrad.protocol.job_file import parse_job_file

__all__ = ["MOST_BYTES", "Job", "load_job"]

MOST_BYTES: Final = 1 << 20
"""A job file is read whole by a function: 1 MiB is far more than anyone writes by hand."""


@dataclass(frozen=True)
class Job:
    """A job file, read and validated; its folder holds the task."""

    path: Path
    body: bytes
    spec: JobSpec

    @property
    def directory(self) -> Path:
        """Return the folder of the job file, absolute."""
        return self.path.resolve().parent


def load_job(path: Path) -> Job:
    """Read and validate a job file.

    Raises:
        InvalidJob: it cannot be read, is over 1 MiB, or says something wrong: one line.
    """
    try:
        with path.open("rb") as stream:
            body = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidJob(f"job file {path}: {error.strerror}; give the path of a file") from error
    if len(body) > MOST_BYTES:
        size = path.stat().st_size
        raise InvalidJob(
            f"job file {path}: {size:,} bytes, at most {MOST_BYTES:,} are allowed; "
            "a job file holds settings, not data"
        )
    try:
        return Job(path, body, parse_job_file(body))
    except InvalidJob as error:
        raise InvalidJob(f"job file {path}: {str(error).removeprefix('job file: ')}") from error
