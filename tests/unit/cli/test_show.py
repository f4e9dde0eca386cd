from pathlib import Path

import pytest

from spotgrad.cli.show import time_text
from spotgrad.directory.store import DirectoryStore
from spotgrad.protocol.head import Counts, DeadSubtask, Evaluation
from spotgrad.protocol.keys import HeadKey, JobFileKey
from tests.builders import JOB, Bench, model_ref
from tests.unit.cli.conftest import Run
from tests.unit.cli.jobs import JOB_FILE, epoch, head, put_job, saved


def test_a_job_is_shown_with_all_that_is_known(run: Run, bucket: Path) -> None:
    present = head(
        version=5,
        results_merged=5,
        reason="half way",
        epochs=(epoch(2, issued=[0, 1], merged=[0]),),
        evaluated=(Evaluation(epoch=1, model=model_ref(4), metrics={"loss": 2, "accuracy": 0.5}),),
        dead=(DeadSubtask(epoch=1, subtask="train-000003", reason="ValueError: boom"),),
    )
    put_job(DirectoryStore(bucket), present)
    ran = run("status", JOB, "--bucket", bucket)
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "digits  RUNNING",
        "  reason    half way",
        "  epoch     2 of 3",
        "  subtasks  5 of 12 merged, 1 in flight, 0 rejected, 0 failed, 0 retried, 1 dead",
        "  version   5",
        "  metrics   accuracy 0.5000  loss 2.0000",
        "  workers   0",
        "  started   2030-01-01 00:00:00 UTC",
        "  updated   2030-01-01 00:00:00 UTC",
        "  dead      train-000003 of epoch 1: ValueError: boom",
    ]


def test_what_only_some_jobs_have_is_shown_where_there_is_any(run: Run, bucket: Path) -> None:
    asked = {"admission": {"quorum": {"share": 0.1}}, "workers": {"max": 3}}
    present = head(counts=Counts(dropped=2, late=1), dissent={"gpu-7": 2, "gpu-3": 1})
    put_job(DirectoryStore(bucket), present, **asked)
    lines = run("status", JOB, "--bucket", bucket).out.splitlines()
    assert (
        "  quorum    0 being compared, gpu-3 outvoted 1 x, gpu-7 outvoted 2 x and quarantined"
        in lines
    )
    assert any(line.endswith("0 dead, 2 dropped, 1 late") for line in lines)


def test_before_planning_little_is_known(run: Run, bucket: Path) -> None:
    DirectoryStore(bucket).put(JobFileKey(JOB).render(), JOB_FILE)
    assert run("status", JOB, "--bucket", bucket).out == "digits  PLANNING\n"
    document = run("status", JOB, "--json", "--bucket", bucket).document
    assert (document["state"], document["started_at"]) == ("PLANNING", None)


def test_the_bucket_may_come_from_the_environment(
    run: Run, bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_job(DirectoryStore(bucket), head())
    monkeypatch.setenv("SPOTGRAD_BUCKET", str(bucket))
    assert run("status", JOB, "--json").document["job"] == JOB


def test_an_unknown_job_fails_in_one_line(run: Run, bucket: Path) -> None:
    ran = run("status", "nowhere", "--json", "--bucket", bucket)
    assert (ran.code, ran.document) == (
        1,
        {"error": "job 'nowhere': not in this bucket; spotgrad list shows which are"},
    )
    assert ran.err == f"spotgrad: {ran.document['error']}\n"


def test_jobs_are_listed_and_a_damaged_one_hides_no_other(run: Run, tmp_path: Path) -> None:
    bench = Bench()
    bench.start(shards=2, epochs=1)
    bench.finish()
    store = saved(bench, tmp_path)
    store.put(JobFileKey("planning").render(), JOB_FILE)
    store.put(JobFileKey("damaged").render(), JOB_FILE)
    store.put(HeadKey("damaged").render(), b"{}")
    ran = run("list", "--bucket", tmp_path)
    assert ran.code == 0
    assert [line.split()[:5] for line in ran.out.splitlines()] == [
        ["JOB", "STATE", "EPOCH", "VERSION", "SUBTASKS"],
        ["damaged", "UNREADABLE", "-", "-", "-"],
        ["digits", "SUCCEEDED", "1", "2", "2/2"],
        ["planning", "PLANNING", "-", "-", "-"],
    ]
    damaged, done, planning = run("list", "--json", "--bucket", tmp_path).document["jobs"]
    assert damaged["error"].startswith("head: ")
    assert (done["state"], planning["state"]) == ("SUCCEEDED", "PLANNING")


def test_an_empty_bucket_says_what_to_do(run: Run, bucket: Path) -> None:
    assert "spotgrad submit" in run("list", "--bucket", bucket).out
    assert run("list", "--json", "--bucket", bucket).document == {"jobs": []}


def test_no_time_is_a_dash() -> None:
    assert time_text(None) == "-"
