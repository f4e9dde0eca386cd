from pathlib import Path

import pytest

from spotgrad.cli.estimate_text import seconds_text
from tests.builders import job_file
from tests.unit.cli.conftest import Run


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.001653, "0.00165 s"),
        (2.917, "2.92 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (7500, "2 h 05 min"),
    ],
)
def test_short_times_keep_three_digits(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.fixture
def lines(run: Run, tmp_path: Path) -> list[list[str]]:
    """The words of every line about a job that often loses what it did."""
    path = tmp_path / "job.yaml"
    path.write_bytes(job_file(retries={"interruptions": 1}, workers={"usd_per_hour": 0.001}))
    return [
        line.split()
        for line in run(
            *("estimate", path, "--subtask-seconds", 10, "--preemption", 0.5),
            *("--on-demand-price", 0.003, "--lease-seconds", 60, "--notice-seconds", 5),
        ).out.splitlines()
    ]


def test_small_sums_keep_two_digits(lines: list[list[str]]) -> None:
    assert ["one", "machine", "on", "demand,", "in", "5", "min", "20", "s", "0.00027"] in lines


def test_dead_subtasks_are_shown_where_there_may_be_some(lines: list[list[str]]) -> None:
    (vanishing,) = (line for line in lines if line[:2] == ["without", "notice"])
    assert vanishing[-1] == "8"
    (warned,) = (line for line in lines if line[:2] == ["with", "notice"])
    assert warned[-1] == "0"


def test_latencies_stand_side_by_side(lines: list[list[str]]) -> None:
    takes = {line[0] + line[1]: line[-2:] for line in lines if line[-1:] == ["s"]}
    assert takes["ismissed"] == ["05", "s"]  # 10 + 5 + 50: 1 min 05 s
    assert takes["isgiven"] == ["15", "s"]
    assert takes["isfinished"] == ["10.8", "s"]
