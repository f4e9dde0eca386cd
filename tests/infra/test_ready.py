import importlib.util
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from infra.local import ready as ready_module
from infra.local.home import Home
from infra.local.ready import Ready, RunOptions, check_run
from spotgrad.cli.code import pack_code
from spotgrad.cli.job import Job, load_job
from spotgrad.errors import InvalidJob
from spotgrad.protocol.bundle import unpack
from spotgrad.protocol.keys import HeadKey
from tests.builders import JOB, job_file
from tests.infra.jobs import planned, submitted, write_job


@pytest.fixture(autouse=True)
def torch_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task is looked for, but not imported."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "torch" else find_spec(name)
    )


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return write_job(tmp_path / "job")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(JOB, tmp_path / "root")


def refused(options: RunOptions, home: Home) -> str:
    before = sorted(home.root.rglob("*"))
    with pytest.raises(InvalidJob) as error:
        check_run(options, home)
    assert sorted(home.root.rglob("*")) == before
    assert "\n" not in str(error.value)
    return str(error.value)


def resumed(job: Job, home: Home) -> Ready:
    return check_run(RunOptions(job, resume=True), home)


def test_a_good_job_is_ready_and_nothing_is_written(job: Job, home: Home) -> None:
    ready = check_run(RunOptions(job), home)
    assert ready.job is job
    assert set(unpack(ready.code or b"")) == {"digits_task.py", "digits.py"}
    assert ready.dataset is not None
    assert ready.dataset.layout.train_shards == 4
    assert not home.root.exists()


def test_a_given_data_set_is_taken(job: Job, home: Home, tmp_path: Path) -> None:
    given = tmp_path / "given.npz"
    np.savez(given, x=np.zeros(40))
    ready = check_run(RunOptions(job, dataset=given), home)
    assert ready.dataset is not None
    assert len(ready.dataset.splits["train"]["x"]) == 32


def test_a_missing_task_and_missing_data_are_refused(job: Job, home: Home) -> None:
    (job.directory / "digits_task.py").unlink()
    assert "there is no digits_task.py beside job.yaml" in refused(RunOptions(job), home)
    (job.directory / "digits.py").unlink()
    assert "there is no digits.npz and no digits.py" in refused(RunOptions(job), home)


def test_an_unfinished_run_in_the_way_is_said_first(job: Job, home: Home) -> None:
    home.save(planned(job))
    (job.directory / "digits.py").unlink()
    assert "go on with --resume" in refused(RunOptions(job), home)


def test_nothing_to_resume_is_refused(job: Job, home: Home) -> None:
    assert "--resume: there is no unfinished run" in refused(RunOptions(job, resume=True), home)


def test_a_planned_run_goes_on_without_its_data_set(job: Job, home: Home) -> None:
    home.save(planned(job))
    assert resumed(job, home).dataset is None


def test_a_run_that_was_never_planned_is_submitted_again(job: Job, home: Home) -> None:
    home.save(submitted(job))
    assert resumed(job, home).dataset is not None


def test_a_run_cut_off_between_spec_and_head_is_submitted_again(job: Job, home: Home) -> None:
    store = planned(job)
    store.delete(HeadKey(JOB).render())
    home.save(store)
    assert resumed(job, home).dataset is not None


def test_a_job_file_changed_since_is_refused(job: Job, home: Home) -> None:
    home.save(planned(job))
    job.path.write_bytes(job_file(epochs=7))
    changed = load_job(job.path)
    assert refused(RunOptions(changed, resume=True), home) == (
        "--resume: the job file job.yaml changed since this run of digits began; "
        "undo the change, or start anew with --fresh"
    )
    assert check_run(RunOptions(changed, fresh=True), home).job is changed


def test_code_changed_since_is_refused(job: Job, home: Home) -> None:
    home.save(planned(job))
    (job.directory / "digits_task.py").write_text("class Digits: x = 1\n")
    words = refused(RunOptions(job, resume=True), home)
    assert words.startswith("--resume: the code beside it changed since")
    job.path.write_bytes(job_file(epochs=7))
    words = refused(RunOptions(load_job(job.path), resume=True), home)
    assert words.startswith("--resume: the job file job.yaml and the code beside it changed")


def test_the_same_code_zipped_otherwise_is_the_same(
    job: Job, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.save(planned(job))
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_STORED) as archive:
        for name, text in unpack(pack_code(job) or b"").items():
            archive.writestr(name, text)
    assert body.getvalue() != pack_code(job)
    # As by a Python with another zlib.
    monkeypatch.setattr(ready_module, "pack_code", lambda _: body.getvalue())
    assert resumed(job, home).code == body.getvalue()


def test_code_that_came_or_went_is_a_change(job: Job, home: Home) -> None:
    fields = {"task": "worker_image.tasks.classifier:Classifier"}
    builtin = write_job(job.directory, **fields)
    home.save(planned(builtin))
    assert resumed(builtin, home).code is None
    (job.directory / "worker_image" / "tasks").mkdir(parents=True)
    (job.directory / "worker_image" / "tasks" / "classifier.py").write_text("Classifier = int\n")
    assert "the code beside it changed" in refused(RunOptions(builtin, resume=True), home)
