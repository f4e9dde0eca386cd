import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from spotgrad.cli import plugins
from spotgrad.cli.plugins import GROUP
from tests.unit.cli.conftest import Run

FUNCTION = """
from typing import Annotated
import typer

def worker(*, times: Annotated[int, typer.Option()] = 1) -> None:
    '''Work.'''
    print("worked", times)
    raise typer.Exit(times)
"""
APP = """
import typer

app = typer.Typer(help="Here.")

@app.command()
def run(name: str) -> None:
    '''Run.'''
    print("ran", name)
"""
BROKEN = "import an_extra_that_is_missing\n"


@pytest.fixture(autouse=True)
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three commands from elsewhere, one of which lacks its extra."""
    names = {"hooked_worker": FUNCTION, "hooked_local": APP, "hooked_broken": BROKEN}
    for name, text in names.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    found = [
        EntryPoint("worker", "hooked_worker:worker", GROUP),
        EntryPoint("local", "hooked_local:app", GROUP),
        EntryPoint("broken", "hooked_broken:app", GROUP),
        EntryPoint("status", "hooked_broken:app", GROUP),
    ]
    monkeypatch.setattr(plugins, "entry_points", lambda group: found if group == GROUP else [])
    yield
    for name in names:
        sys.modules.pop(name, None)


def test_a_function_is_a_command(run: Run) -> None:
    ran = run("worker", "--times", 3)
    assert (ran.code, ran.out, ran.err) == (3, "worked 3\n", "")


def test_an_app_is_a_group_even_with_one_command(run: Run) -> None:
    ran = run("local", "run", "digits")
    assert (ran.code, ran.out) == (0, "ran digits\n")


def test_a_missing_extra_is_one_line_that_says_what_to_install(run: Run) -> None:
    for arguments in (["broken"], ["broken", "run", "--any", "thing"]):
        ran = run(*arguments)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == (
            "spotgrad: broken: not installed (No module named 'an_extra_that_is_missing'): "
            "pip install 'spotgrad[broken]'\n"
        )


def test_the_help_lists_them_and_imports_none(run: Run) -> None:
    ran = run("--help")
    assert ran.code == 0
    for words in ("Say how a job stands", "Run the whole pipeline", "Work through the queue"):
        assert words in ran.out
    assert "broken" in ran.out
    assert not {"hooked_worker", "hooked_local", "hooked_broken"} & sys.modules.keys()


def test_an_own_command_is_not_replaced(run: Run) -> None:
    assert "Missing argument 'JOB'" in run("status").err


def test_an_unknown_command_is_still_unknown(run: Run) -> None:
    assert "No such command 'nothing'" in run("nothing").err
