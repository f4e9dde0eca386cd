from pathlib import Path

import pytest

from spotgrad.cli.job import MOST_BYTES, load_job
from spotgrad.errors import InvalidJob
from tests.builders import JOB, job_file


def test_a_job_keeps_the_bytes_and_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(job_file())
    job = load_job(path)
    assert (job.body, job.spec.name, job.directory) == (job_file(), JOB, tmp_path.resolve())


def test_a_file_of_the_largest_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(job_file() + b"\n" * (MOST_BYTES - len(job_file())))
    assert load_job(path).spec.name == JOB


def test_a_byte_more_is_refused_with_the_size(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(InvalidJob, match=r"1,048,577 bytes, at most 1,048,576 are allowed"):
        load_job(path)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidJob, match=r"missing\.yaml: No such file or directory"):
        load_job(tmp_path / "missing.yaml")
    with pytest.raises(InvalidJob, match="Is a directory"):
        load_job(tmp_path)
