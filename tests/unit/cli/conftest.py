"""The command line as a person meets it: ``run("status", "digits")`` -> exit code and output."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spotgrad.cli.main import main


@dataclass(frozen=True)
class Ran:
    """What one command line did."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run_main(*arguments: object) -> Ran:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run_main


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    """An empty directory to give to ``--bucket``."""
    made = tmp_path / "bucket"
    made.mkdir()
    return made
