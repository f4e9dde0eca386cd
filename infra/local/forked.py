"""Child processes that begin with their imports done: forked from one process that has them.

For ``--chaos`` alone, which ends processes by the dozen: a worker's imports take seconds of CPU
time, most of them torch's. What runs in a forked child is what ``python -m module`` runs,
``__main__`` and all. The standard library's fork server does the work; it ends with this process.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import IO, Final

from infra.local.child import Child

__all__ = ["ForkedChild"]

PRELOADED: Final = (
    "spotgrad.cli.main",  # the program that starts them, which each child imports again
    "worker_image.main",
    "torch._dynamo",  # torch's optimizers import it at their first use
    "aws_lambda_powertools.logging",
    "aws_lambda_powertools.metrics",
    "aws_lambda_powertools.tracing",
    "spotgrad.steps.plan_job",
    "spotgrad.steps.aggregate_results",
    "spotgrad.steps.reconcile_job",
)
_SERVER: Final = multiprocessing.get_context("forkserver")
_LOCK: Final = threading.Lock()
"""Starting a process and asking for its end read the same pipes, also those of other children."""


class ForkedChild(Child):
    """A ``Child`` that is there at once; its module sees no difference."""

    def __init__(
        self, module: str, *arguments: str, environment: Mapping[str, str], log: Path
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        stdin, to_child = _SERVER.Pipe(duplex=False)
        from_child, stdout = _SERVER.Pipe(duplex=False)
        with stdin, stdout:
            process = _Forked((module, *arguments), dict(environment), (stdin, stdout), log)
        self._keep(process, _stream(to_child, "wb"), _stream(from_child, "rb"))


class _Forked:
    """The process, as a ``Child`` uses it: a ``Process``."""

    def __init__(
        self,
        command: tuple[str, ...],
        environment: dict[str, str],
        pipes: tuple[Connection, Connection],
        log: Path,
    ) -> None:
        with _LOCK:
            _SERVER.set_forkserver_preload(list(PRELOADED))
            self._process: ForkServerProcess = _SERVER.Process(
                target=_become, args=(command, environment, pipes, log)
            )
            self._process.start()
        self.pid: int = self._process.pid or 0

    def poll(self) -> int | None:
        with _LOCK:
            return self._process.exitcode

    def send_signal(self, number: int) -> None:
        with _LOCK:
            if self._process.exitcode is None:
                os.kill(self.pid, number)

    def kill(self) -> None:
        with _LOCK:
            self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        wait([self._process.sentinel], timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired("a forked child", timeout or 0.0)
        return status


def _stream(connection: Connection, mode: str) -> IO[bytes]:
    """Return the connection's end of the pipe as a file."""
    with connection:
        file: IO[bytes] = os.fdopen(os.dup(connection.fileno()), mode)
        return file


def _become(
    command: tuple[str, ...],
    environment: Mapping[str, str],
    pipes: tuple[Connection, Connection],
    log: Path,
) -> None:
    """Run in the child: be ``python -m command`` with that environment and those pipes."""
    os.setsid()
    with log.open("ab") as errors:
        for mine, number in ((pipes[0], 0), (pipes[1], 1), (errors, 2)):
            os.dup2(mine.fileno(), number)
    for pipe in pipes:
        pipe.close()
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", 1)
    os.environ.clear()  # noqa: TID251 -- the child's own environment, as Popen would set it
    os.environ.update(environment)  # noqa: TID251 -- the same
    sys.argv[:] = command
    runpy.run_module(command[0], run_name="__main__", alter_sys=True)
