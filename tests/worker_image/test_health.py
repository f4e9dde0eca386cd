import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from worker_image.health import PROC, healthy


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    """A process whose command line has a word like the worker's, waiting for its input."""
    code = "import sys; print('here', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "worker_image"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"  # before that, it has no command line
        yield process
        process.kill()


def wait_for(pid: int, state: str) -> None:
    while f") {state} " not in (PROC / str(pid) / "stat").read_text(encoding="utf-8"):
        os.sched_yield()


@pytest.mark.usefixtures("child")
def test_a_worker_that_waits_is_well() -> None:
    assert healthy(parent=os.getpid())


def test_a_stopped_worker_is_not(child: "subprocess.Popen[bytes]") -> None:
    child.send_signal(signal.SIGSTOP)
    wait_for(child.pid, "T")
    assert not healthy(parent=os.getpid())


def test_a_dead_worker_is_not(child: "subprocess.Popen[bytes]") -> None:
    os.kill(child.pid, signal.SIGKILL)
    wait_for(child.pid, "Z")
    assert not healthy(parent=os.getpid())


@pytest.mark.parametrize("parent", [os.getpid(), 2**22 + 1])
def test_without_a_worker_nobody_is_well(parent: int) -> None:
    assert not healthy(parent=parent)


def test_another_child_is_no_worker(tmp_path: Path) -> None:
    listed = tmp_path / "1" / "task" / "1" / "children"
    listed.parent.mkdir(parents=True)
    listed.write_text("7 8", encoding="ascii")
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cmdline").write_bytes(b"/bin/sh\0")
    assert not healthy(tmp_path)  # 8 ended meanwhile
