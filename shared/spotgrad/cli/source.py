"""Where a data set comes from: an ``.npz`` file, or a ``.py`` file with ``arrays()``.

Only reading: what makes a valid data set is said by ``planning.sharding``. Nothing is unpickled.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spotgrad.errors import InvalidJob
from spotgrad.planning.sharding import ABOUT_ARRAYS, TRAIN, VALIDATION, Arrays, hold_out

__all__ = ["DEFAULT_VALIDATION", "Source", "load_source", "named_after", "splits_of"]

DEFAULT_VALIDATION: Final = 0.2
_MODULE: Final = "spotgrad_source"


@dataclass(frozen=True)
class Source:
    """What a source holds: ``splits`` by name, or plain ``columns`` that are yet to be split."""

    splits: Mapping[str, Arrays] | None = None
    columns: Arrays | None = None
    shards: int | None = None
    """How many training shards the source itself asks for."""


def load_source(path: Path) -> Source:
    """Read a source.

    Raises:
        InvalidJob: it is neither ``.npz`` nor ``.py``, or cannot be read: one line.
    """
    if not path.is_file():
        raise InvalidJob(f"source {path}: there is no such file")
    if path.suffix == ".npz":
        return _from_npz(path)
    if path.suffix == ".py":
        return _from_python(path)
    raise InvalidJob(
        f"source {path}: give an .npz file, or a .py file with arrays(), not {path.suffix!r}"
    )


@contextmanager
def named_after(path: Path) -> Iterator[None]:
    """Let what is wrong with the arrays be said of the file that they came from."""
    try:
        yield
    except InvalidJob as error:
        _, about_arrays, finding = str(error).partition(ABOUT_ARRAYS)
        if not about_arrays:
            raise
        raise InvalidJob(f"source {path}: {finding}") from error


def splits_of(source: Source, *, validation: float | None, seed: int) -> Mapping[str, Arrays]:
    """Return the splits of a source; plain columns are split, named splits are taken as named.

    Raises:
        InvalidJob: ``validation`` is asked of a source that names its splits, or leaves nothing.
    """
    if source.columns is not None:
        share = DEFAULT_VALIDATION if validation is None else validation
        return hold_out(source.columns, share, seed)
    splits = source.splits or {}
    if validation is not None:
        raise InvalidJob(
            f"--validation {validation:g}: the source names its splits itself "
            f"({', '.join(splits)}); leave the option out"
        )
    return splits


def _from_npz(path: Path) -> Source:
    arrays = _read_npz(path)
    if not arrays:
        raise InvalidJob(f"source {path}: it holds no array; save them with numpy.savez")
    named = [key for key in arrays if "." in key]
    if named and len(named) < len(arrays):
        plain = next(key for key in arrays if "." not in key)
        raise InvalidJob(
            f"source {path}: {plain!r} names no split, but {named[0]!r} does; "
            "write <split>.<column> for all arrays, or for none"
        )
    if not named:
        return Source(columns=arrays)
    splits: dict[str, dict[str, NDArray[Any]]] = {}
    for key, array in arrays.items():
        split, _, column = key.partition(".")
        splits.setdefault(split, {})[column] = array
    return Source(splits=splits)


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    if path.stat().st_size == 0:
        raise InvalidJob(f"source {path}: the file is empty (0 bytes); write it again")
    try:
        # numpy leaves the file open when it is no zip file: open it here.
        with path.open("rb") as stream:
            found = np.load(stream, allow_pickle=False)
            if isinstance(found, np.lib.npyio.NpzFile):
                return dict(found.items())
    except Exception as error:  # zipfile, zlib and numpy have a dozen kinds for a damaged file
        if str(error).startswith("Object arrays"):
            raise InvalidJob(
                f"source {path}: an array of Python objects, which only pickle could read; "
                "save booleans, integers or floats"
            ) from error
        raise InvalidJob(
            f"source {path}: not a readable .npz file: {_line(error)}; write it with numpy.savez"
        ) from error
    raise InvalidJob(f"source {path}: one bare array, not an .npz file; use numpy.savez")


def _from_python(path: Path) -> Source:
    with _users_code(path):
        module = _blamed(path, lambda: _imported(path))
        arrays, shards = getattr(module, "arrays", None), getattr(module, "SHARDS", None)
        if not callable(arrays):
            raise InvalidJob(f"source {path}: it has no function arrays()")
        made = _blamed(path, arrays)
    if shards is not None and (type(shards) is not int or shards < 1):
        raise InvalidJob(f"source {path}: SHARDS = {shards!r}: a whole number above 0 is needed")
    return Source(splits=_checked(path, made), shards=shards)


@contextmanager
def _users_code(path: Path) -> Iterator[None]:
    """Let the file import its neighbours, as a script does; what it prints goes to stderr."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.path.remove(folder)
        sys.modules.pop(_MODULE, None)


def _imported(path: Path) -> ModuleType:
    """Run a file as a module of its own, whatever its name is."""
    loader = SourceFileLoader(_MODULE, str(path))
    module = ModuleType(_MODULE)
    module.__file__ = str(path)
    sys.modules[_MODULE] = module  # dataclasses and pickling look it up there
    loader.exec_module(module)
    return module


def _blamed(path: Path, code: Callable[[], Any]) -> Any:
    """Call the user's code; whatever it raises is a finding about it, in one line."""
    try:
        return code()
    except Exception as error:
        raise InvalidJob(f"source {path}: {type(error).__name__}: {_line(error)}") from error


def _checked(path: Path, made: Any) -> dict[str, dict[str, NDArray[Any]]]:
    shape_is_right = isinstance(made, Mapping) and all(
        isinstance(split, str)
        and isinstance(columns, Mapping)
        and all(isinstance(name, str) for name in columns)
        for split, columns in made.items()
    )
    if not shape_is_right:
        raise InvalidJob(
            f"source {path}: arrays() must return {{split: {{column: array}}}}, such as "
            f"{{{TRAIN!r}: {{'x': x, 'y': y}}, {VALIDATION!r}: ...}}"
        )
    return {
        split: {name: np.asarray(array) for name, array in columns.items()}
        for split, columns in made.items()
    }


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
