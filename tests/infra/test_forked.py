"""A forked child is a child: the same module run as a program, the same pipes, the same end."""

import signal
from pathlib import Path

import pytest

from infra.local.child import Child, is_left
from infra.local.environment import child_environment
from infra.local.forked import ForkedChild


def start(kind: type[Child], folder: Path, *arguments: str) -> Child:
    environment = child_environment(extra={"SPOTGRAD_TEST": "seen"})
    return kind("tests.infra.mirror", *arguments, environment=environment, log=folder / "a" / "log")


@pytest.mark.parametrize("kind", [Child, ForkedChild])
def test_it_is_the_program_with_its_arguments_environment_and_pipes(
    kind: type[Child], tmp_path: Path
) -> None:
    child = start(kind, tmp_path, "one", "two")
    with child.stdout:
        child.stdin.write(b"ping\n")
        child.stdin.flush()
        seen = child.stdout.readline().decode().strip()
        assert child.poll() is None
        assert child.end(grace_seconds=60) == 7
        assert child.stdout.read() == b"end of input\n"
    assert seen == f"__main__ one,two seen ping {child.pid} {child.pid}"
    assert (tmp_path / "a" / "log").read_text(encoding="utf-8") == "to the log\n"
    assert child.poll() == 7
    assert not child.signal(signal.SIGTERM)
    assert not is_left(child.pid)


def test_it_has_its_imports_done(tmp_path: Path) -> None:
    needed = ("torch", "torch._dynamo", "boto3", "aws_lambda_powertools", "worker_image.main")
    child = start(ForkedChild, tmp_path, "loaded", *needed)
    with child.stdout:
        assert child.end(grace_seconds=60) == 7
        assert child.stdout.read() == b"True True True True True\n"


def test_it_leaves_the_settings_of_functions_to_them(tmp_path: Path) -> None:
    """A function reads its settings as it is imported: from its own environment."""
    child = start(ForkedChild, tmp_path, "loaded", "functions.plan.app", "functions.aggregate.app")
    with child.stdout:
        assert child.end(grace_seconds=60) == 7
        assert child.stdout.read() == b"False False\n"


def test_a_signal_reaches_it_and_its_status_tells(tmp_path: Path) -> None:
    child = start(ForkedChild, tmp_path)
    with child.stdout:
        assert child.signal(signal.SIGTERM)
        assert child.end(grace_seconds=60) == -signal.SIGTERM


def test_one_that_lingers_is_killed(tmp_path: Path) -> None:
    child = start(ForkedChild, tmp_path, "linger")
    with child.stdout:
        assert child.stdout.readline() == b"lingering\n"
        assert child.end(grace_seconds=0.01) == -signal.SIGKILL
    assert child.kill() == -signal.SIGKILL
