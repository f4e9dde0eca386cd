import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from infra.local.home import Home
from infra.local.report import make_report, show_report
from infra.local.run import Outcome
from spotgrad.cli.output import Output
from spotgrad.protocol.keys import JobFileKey
from spotgrad.steps.read_status import Status, read_status
from tests.builders import JOB, Bench, item, job_file, train


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(JOB, tmp_path / "root")


def ended(home: Home, bench: Bench, **outcome: Any) -> Outcome:
    """The run saved its bucket and saw this as its last status."""
    home.save(bench.store)
    status = read_status(bench.store, JOB, bench.clock.now())
    return Outcome(status=status, **outcome)


def succeeded() -> Bench:
    bench = Bench()
    bench.start(epochs=1)
    bench.finish()
    return bench


def shown(outcome: Outcome, home: Home, capsys: pytest.CaptureFixture[str]) -> tuple[Any, str]:
    """The document and the summary."""
    report = make_report(outcome, home)
    show_report(report, home, Output(as_json=True))
    document = json.loads(capsys.readouterr().out)
    show_report(report, home, Output(as_json=False))
    return document, capsys.readouterr().out


def test_success_is_a_status_and_what_came_of_it(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = ended(home, succeeded())
    report = make_report(outcome, home)
    assert report.good
    document, text = shown(outcome, home, capsys)
    assert outcome.status is not None
    status = json.loads(outcome.status.model_dump_json(by_alias=True))
    assert {name: document[name] for name in status} == status
    assert {name: document[name] for name in document if name not in status} == {
        "model": str(home.model),
        "audit": "clean",
        "chaos": {},
        "leftover": {"messages": 0, "processes": 0},
    }
    assert {"job", "state", "reason", "epoch", "version", "subtasks", "metrics"} <= set(status)
    assert {"workers", "cost", "started_at", "updated_at", "schema"} <= set(status)
    assert set(load_file(home.model)) == {"weight", "counter", "flag"}
    assert text.splitlines() == [
        "",
        "SUCCEEDED",
        "  accuracy   0.5000",
        "  merged     4 of 4 subtasks",
        "  version    4",
        "  audit      clean",
        f"  model      {home.model}",
        "",
        "next:",
        "  from safetensors.torch import load_file",
        f"  load_file('{home.model}')  # for your task's load_state_dict",
        f"  spotgrad versions {JOB} --bucket {home.bucket}",
        f"  spotgrad audit {JOB} --bucket {home.bucket}",
    ]


def test_what_is_left_over_is_counted_and_said(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    left = {"leftover_messages": {"A": 2, "B": 1}, "leftover_processes": 1}
    document, text = shown(ended(home, succeeded(), **left), home, capsys)
    assert document["leftover"] == {"messages": 3, "processes": 1}
    assert "  left over  3 messages, 1 processes" in text.splitlines()


def test_a_finding_of_the_audit_is_no_success(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = succeeded()
    bench.tamper(bench.head.model_copy(update={"results_merged": 3}))
    outcome = ended(home, bench)
    document, text = shown(outcome, home, capsys)
    finding = "the head counts other versions or results than its newest entry"
    assert document["state"] == "SUCCEEDED"
    assert document["audit"] == [finding]
    assert not make_report(outcome, home).good
    assert f"  audit      {finding}" in text.splitlines()


def test_a_damaged_model_is_a_finding_and_no_model(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = succeeded()
    bench.store.put(bench.head.objects["server"].key, b"damaged")
    document, _ = shown(ended(home, bench), home, capsys)
    assert document["model"] is None
    assert document["audit"][-1].startswith("the model cannot be pulled: ")
    assert not home.model.exists()


def test_a_job_that_failed_before_its_first_version_is_reported(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench()
    bench.upload(retries={"failures": 0})
    bench.plan()
    bench.aggregate(bench.failed(item(0, "initialize"), "ImportError: no module"))
    assert bench.head.state == "FAILED"
    outcome = ended(home, bench)
    assert not make_report(outcome, home).good
    document, text = shown(outcome, home, capsys)
    assert (document["state"], document["version"], document["model"]) == ("FAILED", None, None)
    assert "ImportError: no module" in document["reason"]
    assert document["audit"] == "clean"
    assert text.splitlines()[1].startswith("FAILED: ")
    assert "next:" not in text


def test_a_refused_job_is_reported(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench()
    bench.upload()
    bench.store.put(JobFileKey(JOB).render(), job_file(name="other"))
    bench.plan()
    outcome = ended(home, bench)
    assert not make_report(outcome, home).good
    document, text = shown(outcome, home, capsys)
    assert (document["state"], document["model"]) == ("FAILED", None)
    assert document["subtasks"]["total"] is None
    assert text.splitlines()[1:] == [f"FAILED: {document['reason']}", "  audit      clean"]


def test_a_degraded_job_keeps_its_model_and_is_no_success(home: Home) -> None:
    bench = Bench()
    bench.start(epochs=1, retries={"failures": 0, "max_dead": 1})
    bench.aggregate(bench.failed(train(1, 0)))
    assert bench.finish().state == "DEGRADED"
    report = make_report(ended(home, bench), home)
    assert not report.good
    assert report.document["audit"] == "clean"
    assert report.document["model"] == home.model


def test_a_bucket_that_was_lost_is_no_success(home: Home) -> None:
    status = Status(job=JOB, state="SUCCEEDED", version=4)
    report = make_report(Outcome(status=status), home)
    assert not report.good
    assert report.document["audit"] == ["the bucket was not saved: the local AWS emulator ended"]


def test_a_run_that_nobody_watched_has_no_report(home: Home) -> None:
    with pytest.raises(ValueError, match="never watched"):
        make_report(Outcome(), home)
