"""What `sam build` makes of the functions: `make artifacts`. Not collected by itself: it downloads.

Each function is built twice for AWS Lambda, which this machine cannot run, and once for this
machine, where it is imported with nothing but the artifact on the path.
"""

import hashlib
import io
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local.topology import FunctionResource, read_topology
from tests.deployed.tools import FUNCTIONS, ROOT, THIS_MACHINE, build

pytestmark = pytest.mark.timeout(1800)

MOST_BYTES = 120_000_000
"""The issue's limit; AWS Lambda's own is 250 MB unzipped."""
AARCH64 = 183  # ELF e_machine
FORBIDDEN = {"torch", "moto", "pytest", "s3fs", "typer", "rich", "lightning", "sklearn", "scipy"}
IMPORT = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
module, _, name = sys.argv[2].rpartition(".")
assert callable(getattr(importlib.import_module(module), name))
strangers = {
    one.__name__ for one in list(sys.modules.values())
    if "site-packages" in (getattr(one, "__file__", None) or "")
}
assert not strangers, strangers
"""


@pytest.fixture(scope="module")
def for_lambda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("lambda"))


@pytest.fixture(scope="module")
def for_here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("here"), **THIS_MACHINE)


def files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if not path.is_dir())


def relative(folder: Path) -> list[Path]:
    return [path.relative_to(folder) for path in files(folder)]


def zipped(folder: Path) -> bytes:
    """Zip a folder with the times and modes that its files have."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files(folder):
            archive.write(path, path.relative_to(folder))
    return body.getvalue()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_it_is_small_enough(for_lambda: Path, function: str) -> None:
    size = sum(path.stat().st_size for path in files(for_lambda / function))
    print(f"{function}: {size / 1e6:.1f} MB")  # noqa: T201 -- -s shows what was measured
    assert 20_000_000 < size < MOST_BYTES


@pytest.mark.parametrize("function", FUNCTIONS)
def test_it_holds_its_own_handler_the_package_and_no_other_function(
    for_lambda: Path, function: str
) -> None:
    folder, own = for_lambda / function, function.removesuffix("Function").lower()
    names = {path.name for path in (folder / "functions").iterdir()}
    assert names == {"__init__.py", "runtime.py", own}
    ours = {path.relative_to(ROOT / "shared") for path in files(ROOT / "shared" / "spotgrad")}
    command = {"cli", "__main__.py"}
    wanted = {one for one in ours if not command & set(one.parts) and one.suffix != ".pyc"}
    assert {Path("spotgrad") / one for one in relative(folder / "spotgrad")} == wanted


@pytest.mark.parametrize("function", FUNCTIONS)
def test_it_holds_nothing_that_a_function_has_no_use_for(for_lambda: Path, function: str) -> None:
    found = relative(for_lambda / function)
    assert not {path.parts[0] for path in found} & FORBIDDEN
    assert not [path for path in found if path.suffix in {".pyc", ".a", ".pyi"}]
    assert not [path for path in found if {"tests", "__pycache__", "bin"} & set(path.parts)]
    assert not [path for path in found if path.name in {"conftest.py", "RECORD", "Makefile"}]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_compiled_is_for_lambdas_processor_and_python(
    for_lambda: Path, function: str
) -> None:
    libraries = [path for path in files(for_lambda / function) if ".so" in path.suffixes]
    assert {"numpy", "pydantic_core", "safetensors"} <= {
        path.relative_to(for_lambda / function).parts[0] for path in libraries
    }
    for path in libraries:
        assert int.from_bytes(path.read_bytes()[18:20], "little") == AARCH64, path
        assert "cpython" not in path.name or "cpython-313-" in path.name, path


def test_two_builds_of_one_commit_are_the_same_bytes(
    for_lambda: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    nothing_installed = tmp_path_factory.mktemp("cache")
    again = build(tmp_path_factory.mktemp("again"), CACHE=str(nothing_installed))
    for function in FUNCTIONS:
        first, second = zipped(for_lambda / function), zipped(again / function)
        assert hashlib.sha256(first).hexdigest() == hashlib.sha256(second).hexdigest()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_handler_imports_from_the_artifact_alone(for_here: Path, function: str) -> None:
    resource = read_topology().functions[function]
    done = subprocess.run(
        [sys.executable, "-S", "-B", "-P", "-c", IMPORT, for_here / function, resource.handler],
        cwd="/",
        env=_environment(resource),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _environment(resource: FunctionResource) -> dict[str, str]:
    """Return the function's variables; a queue's URL, known only once it exists, as any text."""
    return {name: str(value) for name, value in resource.environment.items()} | {
        "POWERTOOLS_TRACE_DISABLED": "true"
    }
