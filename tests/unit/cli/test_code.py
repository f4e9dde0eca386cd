from pathlib import Path

import pytest

from spotgrad.cli import code
from spotgrad.cli.code import collect, pack_code
from spotgrad.cli.job import Job, load_job
from spotgrad.errors import InvalidJob
from spotgrad.protocol.bundle import unpack
from tests.builders import job_file


def put(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")


def job(folder: Path, task: str = "digits_task:Digits") -> Job:
    path = folder / "job.yaml"
    path.write_bytes(job_file(task=task))
    return load_job(path)


def test_code_and_small_files_go_along_and_nothing_else(tmp_path: Path) -> None:
    put(tmp_path, "digits_task.py", "deep/er/model.py", "vocabulary.json", "words.txt", "a.yaml")
    put(tmp_path, "b.yml", "data.npz", "README.md", ".hidden.py", ".git/x.py", ".spotgrad/y.json")
    put(tmp_path, "__pycache__/z.py", "venv/pyvenv.cfg", "venv/lib/torch.py", "env.d/w.py")
    (tmp_path / "link.py").symlink_to(tmp_path / "digits_task.py")
    bundle = pack_code(job(tmp_path))
    assert bundle is not None
    assert sorted(unpack(bundle)) == [
        "a.yaml",
        "b.yml",
        "deep/er/model.py",
        "digits_task.py",
        "env.d/w.py",
        "vocabulary.json",
        "words.txt",
    ]
    assert unpack(bundle)["deep/er/model.py"] == b"# deep/er/model.py\n"


def test_the_job_file_does_not_change_the_bundle(tmp_path: Path) -> None:
    put(tmp_path, "digits_task.py")
    first = pack_code(job(tmp_path))
    (tmp_path / "job.yaml").write_bytes(job_file(epochs=9))
    assert pack_code(load_job(tmp_path / "job.yaml")) == first


def test_a_task_from_elsewhere_brings_no_code(tmp_path: Path) -> None:
    put(tmp_path, "private.py")
    assert pack_code(job(tmp_path, "worker_image.tasks:classifier")) is None


def test_too_many_bytes_are_refused_with_the_largest_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code, "MOST_BYTES", 37)
    put(tmp_path, "a.py", "much_larger_than_a.py", "z.py")
    with pytest.raises(InvalidJob, match=r"largest: much_larger_than_a\.py, 24 bytes"):
        collect(tmp_path, without=tmp_path / "job.yaml")


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "MOST_FILES", 2)
    put(tmp_path, "a.py", "b.py")
    assert len(collect(tmp_path, without=tmp_path / "job.yaml")) == 2
    put(tmp_path, "c.py")
    with pytest.raises(InvalidJob, match="more than 2 files"):
        collect(tmp_path, without=tmp_path / "job.yaml")
