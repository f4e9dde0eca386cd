"""Names on the command line and in job files: what is no name is refused in one line."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.builders import job_file
from tests.unit.cli.conftest import Run

NAMES = {
    "a slash": "a/b",
    "the folder above": "..",
    "out of the bucket": "../../etc/passwd",
    "absolute": "/etc/passwd",
    "backslashes": "..\\x",
    "percent-encoded": "..%2F..%2Fx",
    "encoded dots": "%2e%2e",
    "a trailing newline": "digits\n",
    "a line break": "digits\nother",
    "upper case": "Digits",
    "a letter that looks alike": "d\u0131gits",
    "full width": "\uff44igits",
    "right to left": "\u202edigits",
    "a dot": "a.b",
    "a space": "a b",
    "too long": "a" * 64,
    "a NUL": "a\0b",
    "nothing": "",
}
COMMANDS: dict[str, Callable[[str], Sequence[str]]] = {
    "status": lambda name: ["status", name],
    "watch": lambda name: ["watch", name],
    "pause": lambda name: ["pause", name],
    "resume": lambda name: ["resume", name],
    "cancel": lambda name: ["cancel", name],
    "versions": lambda name: ["versions", name],
    "pull": lambda name: ["pull", name],
    "audit": lambda name: ["audit", name],
    "replay": lambda name: ["replay", name, "--version", "1"],
    "dlq list": lambda name: ["dlq", "list", name],
    "dlq redrive": lambda name: ["dlq", "redrive", name, "--all"],
    "dataset push": lambda name: ["dataset", "push", name, "x.npz"],
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_no_command_takes_it(run: Run, bucket: Path, name: str) -> None:
    for arguments in COMMANDS.values():
        ran = run(*arguments(name), "--bucket", bucket)
        assert ran.code == 2
        assert ran.err.startswith("spotgrad: ")
        assert ran.err.count("\n") == 1
        assert "is no name of a " in ran.err
        assert ran.out == ""
    assert list(bucket.iterdir()) == []


@pytest.mark.parametrize("field", ["name", "dataset"])
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_no_job_file_may_say_it(
    run: Run, bucket: Path, tmp_path: Path, field: str, name: str
) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(job_file(**{field: name}))
    for command in ("validate", "submit"):
        ran = run(command, path, "--bucket", bucket)
        assert ran.code == 2
        assert ran.err.startswith("spotgrad: job file /")
        assert ran.err.count("\n") == 1
        assert f"{field}: " in ran.err
    assert list(bucket.iterdir()) == []


@pytest.mark.parametrize("name", ["start_from", "resume_from", "init", "checkpoint"])
@pytest.mark.parametrize("path", ["model.pt", "s3://elsewhere/model.pkl"])
def test_no_job_file_starts_from_a_file_of_another_format(
    run: Run, tmp_path: Path, name: str, path: str
) -> None:
    job = tmp_path / "job.yaml"
    job.write_bytes(job_file(**{name: path}))
    ran = run("validate", job)
    assert ran.code == 2
    assert f"{name}: unknown key" in ran.err
