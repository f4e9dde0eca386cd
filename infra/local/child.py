"""Child processes of the local run: Python modules that live exactly as long as their parent.

Every child ends when its standard input closes, so none outlives us, whatever ends us (SIGKILL
included). Each has a process group of its own: Ctrl-C reaches the parent alone, which then ends
them in its own order.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol


class Process(Protocol):
    """As much of ``subprocess.Popen`` as a child is."""

    @property
    def pid(self) -> int:
        """Its process id."""

    def poll(self) -> int | None:
        """Return the exit status, or None while it lives."""

    def send_signal(self, number: int, /) -> None:
        """Send a signal, if it lives."""

    def kill(self) -> None:
        """Send SIGKILL, if it lives."""

    def wait(self, timeout: float | None = None, /) -> int:
        """Return the exit status; raise ``subprocess.TimeoutExpired`` after ``timeout`` seconds."""


class Child:
    """One ``python -m module`` with pipes for standard input and output, errors into ``log``."""

    def __init__(
        self, module: str, *arguments: str, environment: Mapping[str, str], log: Path
    ) -> None:
        # -P: the caller's working directory must not shadow our packages; -u: logs survive a kill.
        command = [sys.executable, "-P", "-u", "-m", module, *arguments]
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as errors:
            process = subprocess.Popen(  # noqa: S603 -- our own module
                command,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self._keep(process, _piped(process.stdin), _piped(process.stdout))

    def _keep(self, process: Process, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self._process = process
        self.pid = process.pid
        self.stdin = stdin
        self.stdout = stdout

    def poll(self) -> int | None:
        """Return the exit status, or None while the child lives."""
        return self._process.poll()

    def signal(self, number: int) -> bool:
        """Send a signal; return whether the child was there to get it."""
        if self._process.poll() is not None:
            return False
        self._process.send_signal(number)
        return True

    def kill(self) -> int:
        """Kill the child at once and return its exit status."""
        self._process.kill()
        return self.end(grace_seconds=0)

    def end(self, *, grace_seconds: float) -> int:
        """Close its standard input, wait, kill it if it lingers; return its exit status.

        ``stdout`` stays open: whoever reads it sees the end of the stream and closes it.
        """
        with suppress(BrokenPipeError):
            self.stdin.close()
        try:
            return self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def is_left(pid: int) -> bool:
    """Return whether anything of a child's process group still runs, what it started included."""
    try:
        os.killpg(pid, 0)
    except (ProcessLookupError, PermissionError):  # gone; or the number is a stranger's by now
        return False
    return True


def _piped(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("Popen was asked for pipes and gave none")
    return pipe
