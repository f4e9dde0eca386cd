from pathlib import Path

import pytest

from spotgrad.cli.files import write_atomically


def test_folders_are_made_and_an_old_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in path.parent.iterdir()] == ["b"]


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_atomically(tmp_path / "folder", b"body")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]
