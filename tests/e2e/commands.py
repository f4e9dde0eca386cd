"""``spotgrad local run`` as a process: started, read line by line, signalled, and looked after.

Processes are found in ``/proc``, so that nothing has to be believed of what the command says.
"""

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.runs import DIGITS
from tests.infra.conftest import is_alive

COMMAND = Path(sys.executable).with_name("spotgrad")
MOST_SECONDS = 200.0
"""For anything, on the slowest machine; what is quick is quick."""

PATIENT_TASK = """
import threading
from pathlib import Path

from digits_task import Digits


class PatientDigits(Digits):
    \"\"\"Slow as long as the file ``slow_while`` exists.\"\"\"

    def __init__(self, slow_while, **args):
        super().__init__(**args)
        self.slow_while = Path(slow_while)

    def training_step(self, batch, batch_idx):
        if self.slow_while.exists():
            threading.Event().wait(0.2)
        return super().training_step(batch, batch_idx)


class FussyDigits(Digits):
    \"\"\"Cannot bear black pixels of more than 16 until the file ``until`` exists.\"\"\"

    def __init__(self, until, **args):
        super().__init__(**args)
        self.until = Path(until)

    def training_step(self, batch, batch_idx):
        if batch[0].max() > 16 and not self.until.exists():
            raise FileNotFoundError(f"no {self.until.name}")
        return super().training_step(batch, batch_idx)


class BrokenDigits(Digits):
    def training_step(self, batch, batch_idx):
        raise ArithmeticError("this task never learns")
"""


def small_digits(folder: Path, *, epochs: int = 1, shards: int = 4, **fields: Any) -> Path:
    """Write a small digits job; return its job file (JSON is YAML)."""
    shutil.copytree(DIGITS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "patient_task.py").write_text(PATIENT_TASK, encoding="utf-8")
    source = folder / "digits.py"
    text = source.read_text(encoding="utf-8")
    assert "SHARDS = 16" in text
    source.write_text(text.replace("SHARDS = 16", f"SHARDS = {shards}"), encoding="utf-8")
    content = {
        "name": "digits-cnn",
        "task": "digits_task:Digits",
        "dataset": "digits",
        "epochs": epochs,
        "local": {"batch_size": 16, "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9}},
    }
    path = folder / "job.yaml"
    path.write_text(json.dumps(content | fields), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Ended:
    """How the command ended, and all that it said."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class RunningCommand:
    """One ``spotgrad local run`` in a process group of its own, as a shell starts it."""

    def __init__(self, *arguments: object, directory: Path) -> None:
        self._process = subprocess.Popen(
            [COMMAND, "local", "run", *map(str, arguments)],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
            # A shell's background job ignores Ctrl-C, and its children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self._read: dict[str, bytes] = {"out": b"", "err": b""}

    def __enter__(self) -> "RunningCommand":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def read_until(self, enough: Callable[[str], bool]) -> str:
        """Read until a line of standard output is what was waited for; return it."""
        seen = 0
        for _ in self._chunks():
            lines = self._text("out").split("\n")[:-1]
            for line in lines[seen:]:
                if enough(line):
                    return line
            seen = len(lines)
        raise AssertionError(f"it never came: {self._read}")

    def end(self) -> Ended:
        """Read to the end of both streams and wait."""
        for _ in self._chunks():
            pass
        code = self._process.wait(MOST_SECONDS)
        return Ended(code, self._text("out"), self._text("err"))

    def interrupt(self) -> None:
        """Ctrl-C: the terminal signals every process of the foreground group."""
        os.killpg(self._process.pid, signal.SIGINT)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def family(self) -> Mapping[int, str]:
        """The command line of every descendant, by process id."""
        return descendants(self._process.pid)

    def _text(self, stream: str) -> str:
        return self._read[stream].decode()

    def _chunks(self) -> Iterator[None]:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        deadline = time.monotonic() + MOST_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ, "out")
            selector.register(self._process.stderr, selectors.EVENT_READ, "err")
            while selector.get_map():
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                assert ready, f"nothing came for {MOST_SECONDS} s: {self._read}"
                for key, _ in ready:
                    chunk = os.read(key.fd, 65_536)
                    self._read[key.data] += chunk
                    if not chunk:
                        selector.unregister(key.fileobj)
                yield


def run_command(*arguments: object, directory: Path) -> Ended:
    """Run the command to its end."""
    with RunningCommand(*arguments, directory=directory) as command:
        return command.end()


def descendants(ancestor: int) -> dict[int, str]:
    """Return the command line of every process below ``ancestor``, by process id."""
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in parentheses, may hold anything.
            fields = status.read_text(encoding="utf-8").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(status.parent.name)] = int(fields[1])
    found = {ancestor}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return {pid: _command_line(pid) for pid in found - {ancestor}}


def gone(pids: Mapping[int, str], *, within_seconds: float) -> bool:
    """Wait until none of the processes is alive."""
    never, deadline = threading.Event(), time.monotonic() + within_seconds
    while any(is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        never.wait(0.05)
    return not any(is_alive(pid) for pid in pids)


def _command_line(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return " ".join(word.decode() for word in words).strip()
