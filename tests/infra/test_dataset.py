from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infra.local.dataset import LocalDataset, find_beside, load_beside
from spotgrad.cli.job import Job, load_job
from spotgrad.errors import InvalidJob
from spotgrad.protocol.dataset import DatasetManifest
from spotgrad.protocol.keys import ManifestKey
from spotgrad.protocol.tensors import decode
from tests.builders import job_file
from tests.fakes.store import FakeStore

PYTHON = """
import numpy as np
{shards}

def arrays():
    return {{
        "train": {{"x": np.arange({samples}.0), "y": np.arange({samples})}},
        "validation": {{"x": np.arange(3.0), "y": np.arange(3)}},
    }}
"""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    path = tmp_path / "job" / "job.yaml"
    path.parent.mkdir()
    path.write_bytes(job_file())
    return load_job(path)


def write_npz(path: Path, samples: int = 40, **more: Any) -> Path:
    np.savez(path, x=np.arange(samples, dtype=np.float32), y=np.arange(samples), **more)
    return path


def write_python(path: Path, samples: int = 40, shards: str = "") -> Path:
    path.write_text(PYTHON.format(samples=samples, shards=shards), encoding="utf-8")
    return path


def pushed(loaded: LocalDataset) -> tuple[FakeStore, DatasetManifest]:
    store = FakeStore()
    loaded.push(store)
    key = ManifestKey("digits").render()
    return store, DatasetManifest.from_json(store.get(key).body)


def sizes(manifest: DatasetManifest) -> dict[str, list[int]]:
    return {
        split: [shard.samples for shard in content.shards]
        for split, content in manifest.splits.items()
    }


def test_an_npz_beside_the_job_file_is_taken_and_a_fifth_held_out(job: Job) -> None:
    write_npz(job.directory / "digits.npz")
    store, manifest = pushed(load_beside(job, None))
    assert sizes(manifest) == {"train": [2] * 16, "validation": [8]}
    values = [
        value
        for split in manifest.splits.values()
        for shard in split.shards
        for value in decode(store.get(shard.key).body).tensors["y"].tolist()
    ]
    assert sorted(values) == list(range(40))


def test_a_python_file_beside_the_job_file_is_taken_with_its_number_of_shards(job: Job) -> None:
    write_python(job.directory / "digits.py", shards="SHARDS = 4")
    _, manifest = pushed(load_beside(job, None))
    assert sizes(manifest) == {"train": [10] * 4, "validation": [3]}


def test_without_a_number_there_are_sixteen_shards(job: Job) -> None:
    write_python(job.directory / "digits.py")
    _, manifest = pushed(load_beside(job, None))
    assert len(manifest.splits["train"].shards) == 16


def test_a_given_path_goes_before_what_lies_beside(job: Job, tmp_path: Path) -> None:
    write_npz(job.directory / "digits.npz")
    given = write_python(tmp_path / "any_name.py", shards="SHARDS = 2")
    _, manifest = pushed(load_beside(job, given))
    assert sizes(manifest)["train"] == [20, 20]


def test_the_npz_goes_before_the_python_file(job: Job) -> None:
    write_python(job.directory / "digits.py")
    npz = write_npz(job.directory / "digits.npz")
    assert find_beside(job) == npz


def test_the_same_data_gives_the_same_shards_on_every_run(job: Job) -> None:
    write_npz(job.directory / "digits.npz")
    first, _ = pushed(load_beside(job, None))
    second, _ = pushed(load_beside(job, None))
    assert first.snapshot() == second.snapshot()


def test_nothing_there_is_one_line_that_names_both_places(job: Job) -> None:
    with pytest.raises(InvalidJob) as refused:
        load_beside(job, None)
    assert str(refused.value) == (
        "dataset: there is no digits.npz and no digits.py beside job.yaml; "
        "give its path with --dataset"
    )


def test_a_given_path_that_is_not_there_is_named(job: Job, tmp_path: Path) -> None:
    given = tmp_path / "nowhere.npz"
    with pytest.raises(InvalidJob, match=r"--dataset .*nowhere\.npz: there is no such file; give"):
        load_beside(job, given)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def arrays(): return {}", "no split 'train'"),
        ("def arrays(): raise OSError('no disk')", "digits.py: OSError: no disk"),
        ("SHARDS = 4", r"no function arrays\(\)"),
        (PYTHON.format(samples=0, shards=""), "split 'train' is empty"),
        (PYTHON.format(samples=3, shards="SHARDS = 4"), "3 samples .* cannot fill 4 shards; add"),
        (PYTHON.format(samples=15, shards=""), "SHARDS in a .py file to 15 or less"),
        (PYTHON.format(samples=5, shards="SHARDS = 0"), "SHARDS = 0: a whole number above 0"),
        (PYTHON.replace('"validation"', '"test"').format(samples=40, shards=""), "evaluate.split"),
    ],
)
def test_what_the_job_cannot_use_is_refused_when_it_is_loaded(
    job: Job, text: str, words: str
) -> None:
    (job.directory / "digits.py").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidJob, match=words) as refused:
        load_beside(job, None)
    assert "\n" not in str(refused.value)


def test_a_damaged_npz_is_refused(job: Job) -> None:
    path = write_npz(job.directory / "digits.npz")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InvalidJob, match=r"digits\.npz: not a readable \.npz file"):
        load_beside(job, None)
