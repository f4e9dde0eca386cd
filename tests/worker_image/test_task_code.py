import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from spotgrad.errors import Malformed, Unsupported
from spotgrad.protocol.bundle import pack
from tests.worker_image.world import TASK, spec
from worker_image.task_code import TaskCode, TaskNotFound


@pytest.fixture
def code() -> Iterator[TaskCode]:
    path, modules = list(sys.path), set(sys.modules)
    made = TaskCode()
    yield made
    made.close()
    assert sys.path == path
    assert not {name for name in set(sys.modules) - modules if name.startswith("tiny")}


def bundle(**files: str) -> bytes:
    return pack({f"{name.replace('__', '/')}.py": text.encode() for name, text in files.items()})


def test_a_task_is_built_with_its_args_from_the_bundle(code: TaskCode) -> None:
    assert code.holds(None)
    code.install("aa", bundle(tiny_task=TASK))
    assert code.holds("aa")
    task = code.build(spec(args={"width": 7}))
    assert type(task).__name__ == "Tiny"
    assert next(task.parameters()).shape == (2, 7)


def test_a_task_is_the_same_on_every_worker_whatever_was_drawn_before(code: TaskCode) -> None:
    code.install("aa", bundle(tiny_task=TASK))
    first = next(code.build(spec()).parameters())
    torch.rand(10)
    assert torch.equal(next(code.build(spec()).parameters()), first)
    assert not torch.equal(next(code.build(spec(seed=6)).parameters()), first)


MODULE = "from tiny_package.part import VALUE\nimport torch.nn as nn\nclass Tiny(nn.Module):\n"
MODULE += "    value = VALUE\n    def training_step(self, batch, batch_idx): ...\n"


def test_another_bundle_replaces_every_module_of_the_first(code: TaskCode) -> None:
    for digest in ("aa", "bb"):
        part = f"VALUE = {digest!r}\n"
        code.install(digest, bundle(tiny_task=MODULE, tiny_package__part=part))
        assert type(code.build(spec())).value == digest  # type: ignore[attr-defined]  # it is the bundle's class
    folder = sys.path[0]
    assert Path(folder, "tiny_package", "part.py").read_text() == "VALUE = 'bb'\n"
    code.close()
    assert code.holds(None)
    assert not Path(folder).exists()
    with pytest.raises(TaskNotFound):
        code.build(spec())


def test_a_bundle_that_cannot_be_read_leaves_none_in_place(code: TaskCode) -> None:
    code.install("aa", bundle(tiny_task=TASK))
    with pytest.raises(Malformed, match="not a readable zip file"):
        code.install("bb", b"not a zip file")
    assert code.holds(None)


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        ("absent:Tiny", "task 'absent:Tiny': there is no module 'absent': put it beside"),
        ("tiny_task.sub:Tiny", r"there is no module 'tiny_task\.sub'"),
        ("absent.sub.deep:Tiny", "there is no module 'absent'"),
        ("tiny_task:Absent", "module 'tiny_task' has no callable 'Absent'"),
        ("tiny_task:torch", "module 'tiny_task' has no callable 'torch'"),
    ],
)
def test_a_task_that_is_not_there_is_named(code: TaskCode, task: str, problem: str) -> None:
    code.install("aa", bundle(tiny_task=TASK))
    with pytest.raises(TaskNotFound, match=problem) as refusal:
        code.build(spec(task=task))
    assert "\n" not in str(refusal.value)


def test_a_task_whose_own_import_is_missing_says_which(code: TaskCode) -> None:
    code.install("aa", bundle(tiny_task="import tiny_absent_library\n"))
    with pytest.raises(ModuleNotFoundError, match="tiny_absent_library"):
        code.build(spec())


def test_a_callable_that_makes_no_task_is_refused(code: TaskCode) -> None:
    code.install("aa", bundle(tiny_task="def Tiny(): return 7\n"))
    with pytest.raises(Unsupported, match="returned a int"):
        code.build(spec())


def test_a_built_in_task_needs_no_bundle(code: TaskCode) -> None:
    args = {"features": 4, "classes": 3, "hidden": [5]}
    task = code.build(spec(task="worker_image.tasks.classifier:Classifier", args=args))
    assert isinstance(task, nn.Module)
    assert task(torch.zeros(2, 2, 2, dtype=torch.uint8)).shape == (2, 3)


def test_the_working_directory_comes_last_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "tiny_here.py").write_text(TASK)
    for _ in range(2):
        here = TaskCode(tmp_path)
    assert sys.path[-1] == str(tmp_path)
    assert sys.path.count(str(tmp_path)) == 1
    assert type(here.build(spec(task="tiny_here:Tiny"))).__name__ == "Tiny"
    del sys.modules["tiny_here"]
