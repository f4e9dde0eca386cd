from pathlib import Path

import pytest

from spotgrad.directory.store import DirectoryStore
from spotgrad.protocol.control import Control
from spotgrad.protocol.keys import ControlKey
from spotgrad.steps.change_control import read_control
from tests.builders import JOB
from tests.unit.cli.conftest import Run
from tests.unit.cli.jobs import head, put_job


@pytest.fixture
def store(bucket: Path) -> DirectoryStore:
    """A running job with a version."""
    made = DirectoryStore(bucket)
    put_job(made, head(version=3))
    return made


def test_pause_resume_and_cancel_are_written_as_wishes(
    run: Run, store: DirectoryStore, bucket: Path
) -> None:
    ran = run("pause", JOB, "--bucket", bucket)
    assert (ran.code, read_control(store, JOB)) == (0, Control(want="pause"))
    assert ran.out.endswith("next: spotgrad local run JOB.yaml --resume\n")
    ran = run("resume", JOB, "--bucket", bucket)
    first = read_control(store, JOB)
    assert (ran.code, first.want, first.resume is None) == (0, "run", False)
    run("resume", JOB, "--bucket", bucket)
    assert read_control(store, JOB).resume != first.resume
    ran = run("cancel", JOB, "--bucket", bucket)
    assert (ran.code, read_control(store, JOB).want) == (0, "cancel")
    assert ran.out.endswith(f"next: spotgrad pull {JOB} --bucket {bucket}\n")


@pytest.mark.parametrize(
    ("command", "want"), [("pause", "pause"), ("resume", "run"), ("cancel", "cancel")]
)
def test_the_document_says_what_was_asked(
    run: Run, store: DirectoryStore, bucket: Path, command: str, want: str
) -> None:
    put_job(store, head())
    ran = run(command, JOB, "--json", "--bucket", bucket)
    assert ran.document == {"job": JOB, "state": "RUNNING", "want": want}


@pytest.mark.parametrize(("command", "code"), [("pause", 0), ("resume", 1), ("cancel", 0)])
def test_an_ended_job_is_left_alone_and_that_is_said(
    run: Run, store: DirectoryStore, bucket: Path, command: str, code: int
) -> None:
    put_job(store, head(state="CANCELLED"))
    ran = run(command, JOB, "--bucket", bucket)
    assert (ran.code, ran.out) == (code, f"{JOB} is CANCELLED: there is nothing to {command}\n")
    document = run(command, JOB, "--json", "--bucket", bucket).document
    assert document == {"job": JOB, "state": "CANCELLED", "want": None}
    assert list(store.list(ControlKey(JOB).render())) == []


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_cancelling_is_not_undone_before_it_has_happened(
    run: Run, store: DirectoryStore, bucket: Path, command: str
) -> None:
    run("cancel", JOB, "--bucket", bucket)
    ran = run(command, JOB, "--bucket", bucket)
    assert (ran.code, read_control(store, JOB).want) == (1, "cancel")
    assert ran.err.startswith(f"spotgrad: job {JOB}: it is being cancelled")


def test_there_must_be_a_job(run: Run, bucket: Path) -> None:
    ran = run("pause", "nowhere", "--bucket", bucket)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert list(DirectoryStore(bucket).list("")) == []


@pytest.mark.parametrize("state", ["PAUSED", "CANCELLED"])
def test_status_shows_it(run: Run, store: DirectoryStore, bucket: Path, state: str) -> None:
    put_job(store, head(state=state))
    assert run("status", JOB, "--bucket", bucket).out.startswith(f"{JOB}  {state}\n")
    assert run("status", JOB, "--json", "--bucket", bucket).document["state"] == state
