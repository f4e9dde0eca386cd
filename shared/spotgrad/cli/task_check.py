"""Whether a job's task can be imported and takes its arguments, tried before anything is uploaded.

The import happens in a process of its own, and only where torch is installed: this process stays
fast, and nothing of the user's runs in it. The check is a courtesy; the worker finds out for good.
"""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from spotgrad.cli.job import Job
from spotgrad.errors import InvalidJob
from spotgrad.protocol.job import JobSpec

__all__ = ["check_task", "is_beside"]

_SECONDS: Final = 300  # torch alone takes seconds, and minutes from a cold network disk

_PROBE: Final = """
import importlib, inspect, json, sys
directory, module, name = sys.argv[1:]
sys.path.insert(0, directory)
task = getattr(importlib.import_module(module), name)
if not callable(task):
    raise TypeError(f"{name!r} is a {type(task).__name__}, nothing to call")
try:
    signature = inspect.signature(task)
except ValueError:
    sys.exit()
signature.bind(**json.load(sys.stdin))
"""


def check_task(job: Job) -> None:
    """Check that the job's task exists, beside the job file or installed.

    Raises:
        InvalidJob: the module is nowhere, fails to import, lacks the callable, or the callable
            does not take ``args``; one line with the end of the traceback.
    """
    module, _, name = job.spec.task.partition(":")
    if not is_beside(job.directory, module) and not _is_installed(module):
        raise InvalidJob(
            f"task: {job.spec.task!r}: there is no {_file(module)} beside {job.path.name}, "
            f"and no module {module!r} is installed"
        )
    if importlib.util.find_spec("torch") is not None:
        _import_elsewhere(job.directory, module, name, job.spec)


def is_beside(directory: Path, module: str) -> bool:
    """Return whether ``module`` is a file or a package below ``directory``."""
    path = directory.joinpath(*module.split("."))
    return path.with_name(f"{path.name}.py").is_file() or (path / "__init__.py").is_file()


def _is_installed(module: str) -> bool:
    # Only the first name: looking for a submodule would import its parents.
    return importlib.util.find_spec(module.partition(".")[0]) is not None


def _file(module: str) -> str:
    return module.replace(".", "/") + ".py"


def _import_elsewhere(directory: Path, module: str, name: str, spec: JobSpec) -> None:
    command = [sys.executable, "-c", _PROBE, str(directory), module, name]
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter; the code is the user's own
            command,
            input=json.dumps(spec.args),
            cwd=directory,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InvalidJob(
            f"task: {spec.task!r}: importing it took over {_SECONDS} s; "
            "keep training and downloads out of the module"
        ) from error
    if done.returncode:
        raise InvalidJob(f"task: {spec.task!r}: {_last_words(done, directory)}")


def _last_words(done: subprocess.CompletedProcess[str], directory: Path) -> str:
    """Return the last line of the traceback, with the user's own line that it came from."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    if not lines:
        return f"importing it ended the interpreter with exit code {done.returncode}"
    frames = re.findall(r'File "([^"]+)", line (\d+)', done.stderr)
    own = [(Path(path), line) for path, line in frames if directory in Path(path).parents]
    where = f"{own[-1][0].relative_to(directory)} line {own[-1][1]}: " if own else ""
    return where + lines[-1]
