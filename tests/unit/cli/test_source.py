import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spotgrad.cli.source import Source, load_source, splits_of
from spotgrad.errors import InvalidJob

X, Y = np.arange(10, dtype=np.float32), np.arange(10)


def problem(path: Path) -> str:
    with pytest.raises(InvalidJob) as caught:
        load_source(path)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(path), "SOURCE")


def python(folder: Path, text: str) -> Path:
    path = folder / "digits.py"
    path.write_text(text)
    return path


def npz(folder: Path, **arrays: Any) -> Path:
    path = folder / "digits.npz"
    np.savez(path, **arrays)
    return path


def test_plain_columns_are_split_by_seed(tmp_path: Path) -> None:
    source = load_source(npz(tmp_path, x=X, y=Y))
    assert source.splits is None
    splits = splits_of(source, validation=None, seed=0)
    assert {split: len(arrays["x"]) for split, arrays in splits.items()} == {
        "train": 8,
        "validation": 2,
    }
    assert splits_of(source, validation=0, seed=0).keys() == {"train"}
    assert len(splits_of(source, validation=0.5, seed=0)["validation"]["y"]) == 5


def test_named_splits_are_taken_as_named(tmp_path: Path) -> None:
    source = load_source(npz(tmp_path, **{"train.x": X, "train.a.b": Y, "test.x": X[:1]}))
    splits = splits_of(source, validation=None, seed=0)
    assert {split: list(arrays) for split, arrays in splits.items()} == {
        "train": ["x", "a.b"],
        "test": ["x"],
    }
    with pytest.raises(InvalidJob, match=r"--validation 0\.1: the source names its splits itself"):
        splits_of(source, validation=0.1, seed=0)


def test_half_named_arrays_are_refused(tmp_path: Path) -> None:
    path = npz(tmp_path, **{"train.x": X, "y": Y})
    assert problem(path).startswith("source SOURCE: 'y' names no split, but 'train.x' does")


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    path = npz(tmp_path, x=np.array([{}], dtype=object))
    assert problem(path) == (
        "source SOURCE: an array of Python objects, which only pickle could read; "
        "save booleans, integers or floats"
    )


def test_what_is_no_npz_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "digits.npz"
    np.save(tmp_path / "one.npy", X)
    for body in (b"PK\x03\x04 cut off", b"text", npz(tmp_path, x=X).read_bytes()[:-30]):
        path.write_bytes(body)
        assert "SOURCE: not a readable .npz file: " in problem(path)
        assert problem(path).endswith("; write it with numpy.savez")
    path.write_bytes(b"")
    assert problem(path) == "source SOURCE: the file is empty (0 bytes); write it again"
    np.savez(path)
    assert problem(path) == "source SOURCE: it holds no array; save them with numpy.savez"
    path.write_bytes((tmp_path / "one.npy").read_bytes())
    assert "SOURCE: one bare array" in problem(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    assert problem(tmp_path / "digits.npz") == "source SOURCE: there is no such file"
    (tmp_path / "digits.csv").touch()
    assert "give an .npz file, or a .py file with arrays(), not '.csv'" in problem(
        tmp_path / "digits.csv"
    )


def test_a_python_file_gives_splits_and_its_wish(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "neighbour_of_digits.py").write_text("ROWS = [[1, 2], [3, 4]]\n")
    path = python(
        tmp_path,
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "SHARDS = 2\nprint('loading')\n"
        "@dataclass\n"
        "class Row:\n"
        "    x: int\n"
        "def arrays():\n"
        "    from neighbour_of_digits import ROWS\n"
        "    return {'train': {'x': ROWS}}\n",
    )
    before = list(sys.path)
    source = load_source(path)
    assert source.splits is not None
    assert source.splits["train"]["x"].tolist() == [[1, 2], [3, 4]]
    assert source.shards == 2
    assert sys.path == before
    assert capsys.readouterr() == ("", "loading\n")  # stdout belongs to the document


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("def arrays(): raise ValueError('a\\nb')\n", "ValueError: a b"),
        ("def arrays(", "SyntaxError: '(' was never closed"),
        ("", "it has no function arrays()"),
        ("arrays = 3", "it has no function arrays()"),
        ("def arrays(): return [1]", "arrays() must return {split: {column: array}}"),
        ("def arrays(): return {'train': [1]}", "arrays() must return {split: {column: array}}"),
        ("def arrays(): return {1: {}}", "arrays() must return {split: {column: array}}"),
        ("def arrays(): return {'train': {2: [1]}}", "arrays() must return"),
        ("SHARDS = 0\ndef arrays(): return {}", "SHARDS = 0: a whole number above 0 is needed"),
        ("SHARDS = True\ndef arrays(): return {}", "SHARDS = True: a whole number"),
    ],
)
def test_what_a_python_file_does_wrong_is_said_in_one_line(
    tmp_path: Path, text: str, words: str
) -> None:
    assert problem(python(tmp_path, text)).startswith(f"source SOURCE: {words}")


def test_an_empty_source_has_no_splits() -> None:
    assert splits_of(Source(splits={}), validation=None, seed=0) == {}
