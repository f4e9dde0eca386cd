import os
from pathlib import Path

import pytest

from infra.local.child import Child, is_left
from infra.local.environment import child_environment
from tests.infra.conftest import is_alive


@pytest.fixture
def parent(tmp_path: Path) -> Child:
    """A worker that left a process of its own running."""
    return Child(
        "tests.infra.workers", "", "parent", environment=child_environment(), log=tmp_path / "log"
    )


def test_what_a_child_started_is_left_over_when_it_has_gone(parent: Child) -> None:
    with parent.stdout:
        grandchild = int(parent.stdout.readline())
        assert is_left(parent.pid)
        parent.kill()
        assert not is_alive(parent.pid)
        assert is_alive(grandchild)
        assert is_left(parent.pid)
        os.kill(grandchild, 9)
        assert parent.stdout.read() == b""  # the grandchild held the other end
    while is_alive(grandchild):
        os.sched_yield()


def test_a_child_that_ended_is_not_left_over(tmp_path: Path) -> None:
    child = Child(
        "tests.infra.workers",
        "",
        "fail",
        environment=child_environment(),
        log=tmp_path / "made" / "log",
    )
    with child.stdout:
        assert child.stdout.read() == b""
    assert child.end(grace_seconds=30) == 77
    assert not is_left(child.pid)
    assert "ImportError" in (tmp_path / "made" / "log").read_text(encoding="utf-8")


def test_a_strangers_process_is_not_ours() -> None:
    assert not is_left(2**22 + 1)  # above every pid that Linux gives out
