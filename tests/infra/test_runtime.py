"""The child's side of the protocol, spoken by hand; ``test_function`` covers it from the parent."""

import json
from pathlib import Path
from typing import Any

from infra.local.child import Child
from infra.local.environment import child_environment
from tests.infra.conftest import wait_for_file


def start(handler: str, log: Path) -> Child:
    return Child("infra.local.runtime", handler, environment=child_environment(), log=log)


def say(child: Child, event: object) -> None:
    request = {
        "event": event,
        "request_id": "r-1",
        "function_name": "F",
        "memory_mb": 128,
        "timeout_seconds": 9,
    }
    child.stdin.write(json.dumps(request).encode() + b"\n")
    child.stdin.flush()


def heard(child: Child) -> Any:
    return json.loads(child.stdout.readline())


def test_one_line_per_request_whatever_the_handler_prints(tmp_path: Path) -> None:
    child = start("tests.infra.handlers.echo", tmp_path / "log")
    with child.stdout:
        assert heard(child) == {"ready": True}
        say(child, {"n": 1})
        say(child, {"n": 2})
        assert [heard(child)["response"]["event"] for _ in range(2)] == [{"n": 1}, {"n": 2}]
        assert child.end(grace_seconds=10) == 0
        assert child.stdout.read() == b""


def test_an_error_comes_back_as_lambda_reports_it(tmp_path: Path) -> None:
    child = start("tests.infra.handlers.fail", tmp_path / "log")
    with child.stdout:
        heard(child)
        say(child, 3)
        error = heard(child)["error"]
        assert error["errorType"] == "ValueError"
        assert error["errorMessage"] == "cannot do 3\non two lines"
        assert any("handlers.py" in line for line in error["stackTrace"])
        child.end(grace_seconds=10)


def test_a_failed_import_is_said_before_the_process_ends(tmp_path: Path) -> None:
    child = start("tests.infra.nowhere.handler", tmp_path / "log")
    with child.stdout:
        assert heard(child)["error"]["errorType"] == "ModuleNotFoundError"
        assert child.stdout.read() == b""
        child.end(grace_seconds=10)


def test_a_hanging_handler_dies_with_its_parent(tmp_path: Path) -> None:
    child = start("tests.infra.handlers.hang", tmp_path / "log")
    with child.stdout:
        heard(child)
        say(child, {"began": str(tmp_path / "began")})
        wait_for_file(tmp_path / "began")
        assert child.end(grace_seconds=10) == 0  # closing standard input is enough
