"""Nothing that is read may run: no unpickling, no YAML constructor, anywhere in the repository.

ruff bans the plainest names; this looks at every import and call, and at what hides behind them.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = ["shared/spotgrad", "functions", "worker_image", "infra", "examples", "benchmarks"]
RUN_WHAT_THEY_READ = {
    *("pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"),
    *("jsonpickle", "ruamel"),
}
BANNED = {
    *("yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.unsafe_load_all"),
    *("yaml.full_load", "yaml.full_load_all", "yaml.Loader", "yaml.UnsafeLoader"),
    *("yaml.FullLoader", "torch.load", "torch.jit.load", "torch.hub.load", "pd.read_pickle"),
    *("pandas.read_pickle", "torch.package.PackageImporter"),
}
"""Of ``yaml``, ``safe_load`` and ``parse`` are left: they build plain data."""

OWN_FILE = Path("infra/local/template.py")
"""It reads the repository's own template, whose intrinsics are tags: its loader is a SafeLoader."""


def sins(source: str) -> list[str]:
    """Return what in this source could run what it reads, as ``line: what``."""
    return [
        f"{getattr(node, 'lineno')}: {what}"  # noqa: B009 - not every node has one
        for node in ast.walk(ast.parse(source))
        for what in _what(node)
    ]


def _what(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (one.name for one in node.names if _runs(one.name))
    elif isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{one.name}" for one in node.names]
        yield from (name for name in names if _runs(name) or name in BANNED)
    elif isinstance(node, ast.Attribute):
        yield from {ast.unparse(node)} & BANNED
    elif isinstance(node, ast.Call):
        yield from _unpickling(node)


def _runs(module: str) -> bool:
    return module.partition(".")[0] in RUN_WHAT_THEY_READ


def _unpickling(call: ast.Call) -> Iterator[str]:
    """numpy unpickles when it is told to; that it must not is to be said."""
    said = {word.arg: ast.unparse(word.value) for word in call.keywords}
    reads = ast.unparse(call.func) in {"np.load", "numpy.load"}
    if (reads or "allow_pickle" in said) and said.get("allow_pickle") != "False":
        yield "numpy without allow_pickle=False"


def test_nothing_that_is_read_may_run() -> None:
    files = [path for part in CODE for path in sorted((ROOT / part).rglob("*.py"))]
    assert len(files) > 100
    found = {
        str(path.relative_to(ROOT)): sinful
        for path in files
        if (sinful := sins(path.read_text(encoding="utf-8")))
    }
    assert found.pop(str(OWN_FILE)) == [
        f"{line}: yaml.load"
        for line, text in enumerate((ROOT / OWN_FILE).read_text(encoding="utf-8").split("\n"), 1)
        if "yaml.load(" in text and "Loader=_Loader" in text
    ]
    assert "class _Loader(yaml.SafeLoader)" in (ROOT / OWN_FILE).read_text(encoding="utf-8")
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import os, pickle as p",
        "from pickle import loads",
        "import cloudpickle",
        "from joblib.memory import load",
        "import marshal",
        "import shelve",
        "import torch\ntorch.load('x', weights_only=True)",
        "from torch import load",
        "reader = torch.load",
        "torch.jit.load('x')",
        "yaml.load(text, Loader=yaml.SafeLoader)",
        "yaml.unsafe_load(text)",
        "yaml.full_load_all(text)",
        "from yaml import load",
        "from yaml import UnsafeLoader",
        "np.load(path)",
        "numpy.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=may)",
        "read(path, allow_pickle=True)",
    ],
)
def test_each_way_is_seen(source: str) -> None:
    assert len(sins(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "np.load(path, allow_pickle=False)",
        "yaml.safe_load(text)",
        "yaml.parse(text, Loader=yaml.SafeLoader)",
        "json.load(stream)",
        "task.load_state_dict(load_file(path))",
        "'torch.load(x)'",
    ],
)
def test_what_builds_plain_data_is_left_alone(source: str) -> None:
    assert sins(source) == []
