"""From ``module:callable`` to a module: the user's bundle is unpacked, imported, called.

The one place that edits ``sys.path``: users import their files by bare names, as beside a script.
Invariant: modules of one bundle are never seen by another one's task. In a worker there is no other
one: its process begins anew before it (``renewal``).
"""

import importlib
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from spotgrad.errors import Reject
from spotgrad.protocol.bundle import unpack
from spotgrad.protocol.job import JobSpec
from worker_image.seeds import seed_everything
from worker_image.task_shape import check_shape

__all__ = ["TaskCode", "TaskNotFound"]


class TaskNotFound(Reject):
    """The job file's ``task`` names something that is not there."""


class TaskCode:
    """At most one code bundle, importable; ``close`` takes it away again."""

    def __init__(self, working_directory: Path | None = None) -> None:
        self._sha256: str | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if working_directory is not None and str(working_directory) not in sys.path:
            sys.path.append(str(working_directory))  # last: it must not hide an installed package

    def holds(self, sha256: str | None) -> bool:
        """Return whether this very bundle (or, for nothing, none) is in place."""
        return self._sha256 == sha256

    def install(self, sha256: str, body: bytes) -> None:
        """Put a bundle in place of the present one.

        Raises:
            Malformed: it is no code bundle.
        """
        self.close()
        files = unpack(body)
        self._folder = tempfile.TemporaryDirectory(prefix="spotgrad-code-")
        for name, content in files.items():
            path = Path(self._folder.name, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        sys.path.insert(0, self._folder.name)
        importlib.invalidate_caches()
        self._sha256 = sha256

    def build(self, spec: JobSpec) -> nn.Module:
        """Return a new task, the same on every worker: the job's seed, not the subtask's.

        Raises:
            TaskNotFound: no such module or callable.
            Unsupported: it returns something that cannot be trained.
        """
        seed_everything(spec.seed)
        return check_shape(_find(spec.task)(**spec.args), spec.task)

    def close(self) -> None:
        """Remove the bundle, its place in ``sys.path`` and all modules that came from it."""
        if self._folder is None:
            return
        folder = self._folder.name
        for name, module in list(sys.modules.items()):
            if _is_from(module, folder):
                del sys.modules[name]
        sys.path[:] = [place for place in sys.path if place != folder]
        self._folder.cleanup()
        self._folder = self._sha256 = None
        importlib.invalidate_caches()


def _find(task: str) -> Any:
    module_name, _, name = task.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name == missing or module_name.startswith(f"{missing}."):
            raise TaskNotFound(
                f"task {task!r}: there is no module {missing!r}: put it beside the job file"
            ) from error
        raise  # the task's own import of something else: its traceback says where
    if not callable(getattr(module, name, None)):
        raise TaskNotFound(f"task {task!r}: module {module_name!r} has no callable {name!r}")
    return getattr(module, name)


def _is_from(module: ModuleType, folder: str) -> bool:
    paths = getattr(module, "__path__", ())
    # torch.classes answers any attribute, so its __path__ is anything but a path.
    folders = [*paths] if isinstance(paths, Iterable) else []
    places = [getattr(module, "__file__", None), *folders]
    return any(Path(place).is_relative_to(folder) for place in places if isinstance(place, str))
