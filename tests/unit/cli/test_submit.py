import importlib.util
from pathlib import Path

import pytest

from spotgrad.directory.store import DirectoryStore
from spotgrad.protocol.bundle import unpack
from spotgrad.protocol.keys import CodeKey, JobFileKey, SpecKey
from spotgrad.protocol.plan import CodeRef
from spotgrad.protocol.tensors import digest
from tests.builders import JOB, job_file
from tests.unit.cli.conftest import Run
from tests.unit.cli.jobs import JOB_FILE, plan, put_manifest

BUILT_IN = job_file(epochs=3, task="json:loads")


@pytest.fixture(autouse=True)
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """``test_task_check`` imports tasks; here it would only take time."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "torch" else find_spec(name)
    )


@pytest.fixture
def store(bucket: Path) -> DirectoryStore:
    made = DirectoryStore(bucket)
    put_manifest(made)
    return made


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "digits_task.py").write_text("class Digits: ...\n")
    path = folder / "job.yaml"
    path.write_bytes(JOB_FILE)
    return path


def test_a_job_is_submitted_with_its_code(
    run: Run, bucket: Path, store: DirectoryStore, job: Path
) -> None:
    ran = run("submit", job, "--json", "--bucket", bucket)
    assert ran.code == 0
    assert store.get(JobFileKey(JOB).render()).body == JOB_FILE
    sha256 = ran.document["code_sha256"]
    body = store.get(CodeKey(JOB, sha256).render()).body
    assert digest(body) == sha256
    assert unpack(body) == {"digits_task.py": b"class Digits: ...\n"}
    assert (ran.document["job"], ran.document["changed"]) == (JOB, True)
    assert [warning[:27] for warning in ran.document["warnings"]] == ["dataset: 4 training shards "]


@pytest.mark.usefixtures("store")
def test_a_person_is_told_what_is_next(run: Run, bucket: Path, job: Path) -> None:
    ran = run("submit", job, "--bucket", bucket)
    first, last = ran.out.splitlines()
    assert first.startswith("submitted digits: 3 epochs of 4 subtasks, ")
    assert first.endswith(" of code")
    assert last == "next: spotgrad local run JOB.yaml --resume"
    assert ran.err.startswith("warning: dataset: 4 training shards")


@pytest.mark.usefixtures("store")
def test_a_built_in_task_brings_no_code(run: Run, bucket: Path, job: Path) -> None:
    job.write_bytes(BUILT_IN)
    ran = run("submit", job, "--bucket", bucket)
    assert ran.out.splitlines()[0] == "submitted digits: 3 epochs of 4 subtasks, no code of its own"


def test_the_same_job_again_is_a_no_op_that_says_so(
    run: Run, bucket: Path, store: DirectoryStore, job: Path
) -> None:
    sha256 = run("submit", job, "--json", "--bucket", bucket).document["code_sha256"]
    code = CodeRef(key=CodeKey(JOB, sha256).render(), sha256=sha256, size_bytes=1)
    store.put(SpecKey(JOB).render(), plan(code=code).to_json())
    ran = run("submit", job, "--bucket", bucket)
    assert ran.code == 0
    assert ran.out.startswith("digits is submitted already, with this very content")


def test_validate_needs_no_bucket(run: Run, job: Path) -> None:
    ran = run("validate", job)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"{job}: valid: job digits, task digits_task:Digits, 3 epochs\n"


def test_validate_warns_and_still_passes(run: Run, job: Path) -> None:
    job.write_bytes(job_file(merge={"alpha": 0.995}))
    ran = run("validate", job)
    assert ran.code == 0
    assert ran.err.startswith("warning: merge.alpha: 0.995")
    document = run("validate", job, "--json").document
    assert document["valid"] is True
    assert document["warnings"] == [ran.err.removeprefix("warning: ").rstrip("\n")]
    assert document["spec"]["merge"] == {
        "rule": "vc-asgd",
        "buffers": "blend",
        "ema": None,
        "start": "live",
        "alpha": 0.995,
    }


def test_with_a_bucket_validate_looks_at_the_data_set(
    run: Run, bucket: Path, store: DirectoryStore, job: Path
) -> None:
    assert run("validate", job, "--bucket", bucket).code == 0
    store.delete("datasets/digits/manifest.json")
    ran = run("validate", job, "--bucket", bucket)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
