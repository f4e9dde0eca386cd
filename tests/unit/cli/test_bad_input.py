"""Issue-shaped: whatever a person gets wrong is one line that names the culprit, exit code 2.

And nothing is half-done: the bucket is as it was before.
"""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from spotgrad.directory.store import DirectoryStore
from spotgrad.protocol.keys import SpecKey
from tests.builders import JOB, job_file
from tests.unit.cli.conftest import Ran, Run
from tests.unit.cli.jobs import JOB_FILE, plan, put_manifest


@pytest.fixture
def torch_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task is then imported, though nothing here imports torch."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: find_spec("json" if name == "torch" else name)
    )


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "digits_task.py").write_text("class Digits: ...\n")
    path = folder / "job.yaml"
    path.write_bytes(JOB_FILE)
    return path


def content(bucket: Path) -> dict[str, bytes]:
    store = DirectoryStore(bucket)
    return {info.key: store.get(info.key).body for info in store.list("")}


def refused(ran: Ran) -> str:
    """Return the one line, having checked that it is one."""
    assert ran.code == 2
    assert ran.err.startswith("spotgrad: ")
    assert ran.err.count("\n") == 1
    assert ran.err.endswith("\n")
    return ran.err.removeprefix("spotgrad: ").rstrip("\n")


JOB_FILES = {
    "unknown key": (job_file(epoch=3), 'epoch: unknown key; did you mean "epochs"?'),
    "unknown key inside": (job_file(merge={"aplha": 0.5}), 'did you mean "alpha"?'),
    "alpha 0": (job_file(merge={"alpha": 0}), "merge.alpha: 0 is not allowed"),
    "alpha 1": (job_file(merge={"alpha": 1}), "merge.alpha: 1 is not allowed"),
    "alpha 1.5": (job_file(merge={"alpha": 1.5}), "merge.alpha: 1.5 is not allowed"),
    "not YAML": (b"name: [digits", "job file: "),
    "not text": (b"\xff\xfe\x00", "job file: "),
    "a tag": (b"name: !!python/object:os.system digits\n", "tag"),
    "a duplicate key": (JOB_FILE.decode().replace("{", "{'name': a, ").encode(), "name"),
    "an anchor": (b"name: &a digits\n", "anchor"),
    "not a mapping": (b"- digits\n", "is not a mapping"),
    "nothing": (b"", "the file is empty"),
    "no epochs": (b"name: a\ntask: a:b\ndataset: a\n", "epochs: missing"),
    "no price": (job_file(budget={"max_usd": 1}), "workers.usd_per_hour"),
    "not supported yet": (job_file(keep={"versions": 1}), "keep.versions is not supported yet"),
    "5 MB": (b"#" * 5_000_000, "5,000,000 bytes, at most 1,048,576 are allowed"),
}


@pytest.mark.parametrize("command", ["validate", "submit"])
@pytest.mark.parametrize(("body", "words"), JOB_FILES.values(), ids=JOB_FILES.keys())
def test_a_wrong_job_file_is_refused(
    run: Run, bucket: Path, job: Path, command: str, body: bytes, words: str
) -> None:
    put_manifest(DirectoryStore(bucket))
    before = content(bucket)
    job.write_bytes(body)
    assert words in refused(run(command, job, "--bucket", bucket))
    assert content(bucket) == before


def test_with_json_the_error_is_the_document(run: Run, job: Path) -> None:
    job.write_bytes(job_file(epoch=3))
    ran = run("validate", job, "--json")
    assert ran.document == {"error": refused(ran)}


@pytest.mark.usefixtures("torch_is_there")
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, "there is no digits_task.py beside job.yaml"),
        ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("Digit = 1", "has no attribute 'Digits'"),
    ],
)
def test_a_task_that_cannot_be_imported_is_refused(
    run: Run, bucket: Path, job: Path, code: str | None, words: str
) -> None:
    put_manifest(DirectoryStore(bucket))
    before = content(bucket)
    task = job.with_name("digits_task.py")
    task.unlink()
    if code is not None:
        task.write_text(code)
    message = refused(run("submit", job, "--bucket", bucket))
    assert message.startswith("task: 'digits_task:Digits': ")
    assert words in message
    assert content(bucket) == before


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "torch" else find_spec(name)
    )


@pytest.mark.usefixtures("no_torch")
def test_a_missing_data_set_is_refused(run: Run, bucket: Path, job: Path) -> None:
    message = refused(run("submit", job, "--bucket", bucket))
    assert message == (
        "dataset: 'digits' is not in the bucket; push it first: spotgrad dataset push digits SOURCE"
    )
    assert content(bucket) == {}


@pytest.mark.usefixtures("no_torch")
def test_a_name_that_is_taken_is_refused(run: Run, bucket: Path, job: Path) -> None:
    store = DirectoryStore(bucket)
    put_manifest(store)
    store.put(SpecKey(JOB).render(), plan().to_json())
    before = content(bucket)
    message = refused(run("submit", job, "--bucket", bucket))
    assert message == (
        "name: 'digits' is taken by a job with code other than this; choose another name"
    )
    assert content(bucket) == before


X, NONE = np.zeros((10, 2), np.float32), np.zeros((0, 2), np.float32)
DATA_SETS = {
    "no samples": ({"x": NONE}, "split 'train' is empty"),
    "an empty split": ({"train.x": X, "validation.x": NONE}, "split 'validation' is empty"),
    "fewer samples than shards": ({"x": X}, "8 samples in split 'train' cannot fill 16 shards"),
    "unequal columns": ({"train.x": X, "train.y": np.zeros(9)}, "unequal length: x 10, y 9"),
    "objects": ({"x": np.array([{}] * 20, dtype=object)}, "Object arrays cannot be loaded"),
    "text": ({"train.x": np.array(["a"] * 20)}, "column train.x holds"),
    "NaN": ({"train.x": np.full(20, np.nan)}, "column train.x holds NaN"),
    "nothing": ({}, "split 'train' has no columns"),
}


@pytest.mark.parametrize(("arrays", "words"), DATA_SETS.values(), ids=DATA_SETS.keys())
def test_what_is_no_data_set_is_refused(
    run: Run, bucket: Path, tmp_path: Path, arrays: dict[str, np.ndarray], words: str
) -> None:
    source = tmp_path / "digits.npz"
    np.savez(source, **arrays)  # type: ignore[arg-type]  # numpy's stub takes allow_pickle for one
    assert words in refused(run("dataset", "push", "digits", source, "--bucket", bucket))
    assert content(bucket) == {}


USAGE = {
    "no such command": (["stats"], "No such command 'stats'. Did you mean 'status'"),
    "no such option": (["list", "--colour"], "No such option: --colour"),
    "no bucket": (["list"], "Missing option '--bucket'"),
    "no job": (["status"], "Missing argument 'JOB'"),
    "a job's name": (["status", "Digits"], "'Digits' is no name of a job"),
    "a data set's name": (["dataset", "push", "a/b", "x.npz"], "'a/b' is no name of a dataset"),
    "no shards": (["dataset", "push", "a", "x.npz", "--shards", "0"], "--shards"),
    "a share": (["dataset", "push", "a", "x.npz", "--validation", "2"], "--validation"),
    "a version": (["replay", "digits", "--version", "-1"], "--version"),
    "no directory": (["list", "--bucket", "no/where"], "there is no such directory"),
    "no file": (["validate", "nowhere.yaml"], "nowhere.yaml: No such file or directory"),
}


@pytest.mark.parametrize(("arguments", "words"), USAGE.values(), ids=USAGE.keys())
def test_wrong_usage_is_refused(run: Run, arguments: list[str], words: str) -> None:
    assert words in refused(run(*arguments))
    ran = run(*arguments, "--json")
    assert words in json.loads(ran.out)["error"]
