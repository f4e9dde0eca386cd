"""The two ways in: what they pass on, and what they refuse."""

from typing import Any

import pytest

from spotgrad.cli.plugins import load
from worker_image import __main__, command


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []

    def start(**options: Any) -> int:
        calls.append(options)
        return 75

    monkeypatch.setattr(__main__, "start", start)
    monkeypatch.setattr(command, "start", start)
    return calls


def test_the_containers_entry(started: list[dict[str, Any]]) -> None:
    assert __main__.main(["--until-idle", "2.5", "--slow", "1", "--leave-with-parent"]) == 75
    assert __main__.main([]) == 75
    assert started == [
        {"until_idle_seconds": 2.5, "slow_seconds": 1.0, "leave_with_parent": True},
        {"until_idle_seconds": None, "slow_seconds": 0.0, "leave_with_parent": False},
    ]


@pytest.mark.parametrize("seconds", ["soon", "-1", "nan", "inf"])
def test_what_is_no_number_of_seconds_is_a_usage_error(
    started: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], seconds: str
) -> None:
    with pytest.raises(SystemExit) as refusal:
        __main__.main([f"--until-idle={seconds}"])
    assert refusal.value.code == 2
    assert "--until-idle" in capsys.readouterr().err
    assert started == []


class Hook:
    """An entry point, as packaging metadata would give it."""

    name = "worker"

    def load(self) -> Any:
        return command.worker


def test_the_command(started: list[dict[str, Any]]) -> None:
    app = load(Hook())  # type: ignore[arg-type]  # it needs a name and load() only
    with pytest.raises(SystemExit) as ended:
        app(["--until-idle", "0", "--slow", "3"])
    assert ended.value.code == 75
    assert started == [{"until_idle_seconds": 0.0, "slow_seconds": 3.0}]
