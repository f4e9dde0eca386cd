"""The user's training code: what beside a job file goes into the bundle, and what stays at home."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from spotgrad.cli.job import Job
from spotgrad.cli.task_check import is_beside
from spotgrad.errors import InvalidJob
from spotgrad.protocol.bundle import MOST_FILES, pack

__all__ = ["MOST_BYTES", "SUFFIXES", "collect", "pack_code"]

SUFFIXES: Final = frozenset({".py", ".json", ".txt", ".yaml", ".yml"})
"""Code, and the small files that code reads. Data belongs into a data set."""

MOST_BYTES: Final = 50_000_000
"""All files together, before compression: a worker unpacks the bundle for every job."""


def pack_code(job: Job) -> bytes | None:
    """Return the code bundle of a job, or None when its task is not beside the job file.

    Raises:
        InvalidJob: the files are too large or too many.
    """
    if not is_beside(job.directory, job.spec.task.partition(":")[0]):
        return None
    return pack(collect(job.directory, without=job.path.resolve()))


def collect(directory: Path, without: Path) -> dict[str, bytes]:
    """Return the files of a code bundle by relative path, in no order.

    Left out: the job file ``without``, so that its bytes are not counted twice; hidden files and
    folders, caches, virtual environments; links, which may lead anywhere.

    Raises:
        InvalidJob: over ``MOST_BYTES`` or ``MOST_FILES``, with the largest file or the number.
    """
    files: dict[str, bytes] = {}
    total = 0
    for path in _walk(directory):
        if path != without:
            body = path.read_bytes()
            files[path.relative_to(directory).as_posix()] = body
            total += len(body)
        if total > MOST_BYTES or len(files) > MOST_FILES:
            raise _too_much(directory, files)
    return files


def _walk(directory: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(directory):
        folders[:] = sorted(name for name in folders if _is_code_folder(Path(where) / name))
        for name in sorted(names):
            path = Path(where) / name
            hidden = name.startswith(".")
            if path.suffix in SUFFIXES and not hidden and not path.is_symlink():
                yield path


def _is_code_folder(path: Path) -> bool:
    # Every virtual environment has this file: https://docs.python.org/3/library/venv.html
    environment = (path / "pyvenv.cfg").exists()
    return not path.name.startswith(".") and path.name != "__pycache__" and not environment


def _too_much(directory: Path, files: dict[str, bytes]) -> InvalidJob:
    largest = max(files, key=lambda name: len(files[name]))
    return InvalidJob(
        f"code beside the job file in {directory}: more than {MOST_FILES:,} files or "
        f"{MOST_BYTES:,} bytes (largest: {largest}, {len(files[largest]):,} bytes); "
        "keep the job file and its code in a folder of their own"
    )
