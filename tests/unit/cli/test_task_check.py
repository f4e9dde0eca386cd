import importlib.machinery
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from spotgrad.cli import task_check
from spotgrad.cli.job import Job, load_job
from spotgrad.cli.task_check import check_task, is_beside
from spotgrad.errors import InvalidJob
from tests.builders import job_file

TASK = "class Digits:\n    def __init__(self, channels=()):\n        self.channels = channels\n"


@pytest.fixture(autouse=True)
def torch_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding torch is what matters; importing it would only take seconds."""
    find_spec = importlib.util.find_spec

    def found(name: str, package: str | None = None) -> importlib.machinery.ModuleSpec | None:
        return find_spec("json") if name == "torch" else find_spec(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", found)


def job(folder: Path, code: str | None = TASK, **fields: Any) -> Job:
    if code is not None:
        (folder / "digits_task.py").write_text(code)
    path = folder / "job.yaml"
    path.write_bytes(job_file(**fields))
    return load_job(path)


def problem(checked: Job) -> str:
    with pytest.raises(InvalidJob) as caught:
        check_task(checked)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_task_beside_the_job_file_with_its_arguments_is_fine(tmp_path: Path) -> None:
    check_task(job(tmp_path, args={"channels": [1, 2]}))


def test_a_task_in_a_package_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "task.py").write_text("from neighbour import Digits\n")
    (tmp_path / "neighbour.py").write_text(TASK)
    check_task(job(tmp_path, None, task="pack.task:Digits"))


def test_an_installed_task_is_fine_and_so_is_one_without_a_signature(tmp_path: Path) -> None:
    check_task(job(tmp_path, None, task="collections:OrderedDict"))
    check_task(job(tmp_path, None, task="builtins:dict"))


def test_a_module_that_is_nowhere_is_named(tmp_path: Path) -> None:
    assert problem(job(tmp_path, None)) == (
        "task: 'digits_task:Digits': there is no digits_task.py beside job.yaml, "
        "and no module 'digits_task' is installed"
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import nowhere_at_all\n", "digits_task.py line 1: ModuleNotFoundError: No module named"),
        ("x = 1\n\n1 / 0\n", "digits_task.py line 3: ZeroDivisionError: division by zero"),
        ("def Digits(:\n", "digits_task.py line 1: SyntaxError: invalid syntax"),
        ("class Digit: ...\n", "AttributeError: module 'digits_task' has no attribute 'Digits'"),
        ("Digits = 3\n", "TypeError: 'Digits' is a int, nothing to call"),
        ("import os\nos._exit(3)\n", "importing it ended the interpreter with exit code 3"),
    ],
)
def test_what_goes_wrong_on_import_is_the_last_line_of_the_traceback(
    tmp_path: Path, code: str, words: str
) -> None:
    assert problem(job(tmp_path, code)).startswith(f"task: 'digits_task:Digits': {words}")


def test_arguments_that_the_task_does_not_take_are_found(tmp_path: Path) -> None:
    message = problem(job(tmp_path, args={"chanels": 1}))
    assert message.endswith("TypeError: got an unexpected keyword argument 'chanels'")


def test_an_import_without_an_end_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_check, "_SECONDS", 0.01)
    assert "importing it took over 0.01 s" in problem(job(tmp_path))


def test_without_torch_nothing_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    check_task(job(tmp_path, "raise SystemExit\n"))
    assert "no module 'other' is installed" in problem(job(tmp_path, task="other:Digits"))


def test_a_module_is_beside_as_a_file_or_a_package(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    assert not is_beside(tmp_path, "package")
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "module.py").touch()
    assert is_beside(tmp_path, "package")
    assert is_beside(tmp_path, "package.module")
    assert not is_beside(tmp_path, "package.other")
