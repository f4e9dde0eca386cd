"""The command around a run that is only played; the real one is in tests/e2e."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from infra.local import command
from infra.local.home import Home
from infra.local.run import Outcome, RunOptions
from spotgrad.cli.main import main
from spotgrad.errors import InvalidJob, Reject
from spotgrad.steps.read_status import read_status
from tests.builders import JOB, Bench, item, train
from tests.infra.jobs import write_job

Play = Callable[[RunOptions, Home], None]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a job in it."""
    monkeypatch.chdir(tmp_path)
    write_job(tmp_path / "job")
    return tmp_path


class PlayedRun:
    """A run that is over as soon as it is watched."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.outcome = Outcome()
        self.drained = False

    def watch(self, show: Any) -> None:
        status = read_status(self.bench.store, JOB, self.bench.clock.now())
        show(status, ["workers replaced: 1"])
        self.outcome.status = status

    def drain(self) -> None:
        self.drained = True


class Stage:
    """Puts a played run in the real one's place and keeps the options it was called with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.options: list[RunOptions] = []
        self.runs: list[PlayedRun] = []

    def play(self, bench: Bench, error: BaseException | None = None) -> None:
        @contextmanager
        def played(options: RunOptions, home: Home) -> Iterator[PlayedRun]:
            self.options.append(options)
            self.runs.append(PlayedRun(bench))
            yield self.runs[-1]
            home.save(bench.store)
            if error is not None:
                raise error

        self._monkeypatch.setattr(command, "local_run", played)


@pytest.fixture
def stage(here: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    assert here.is_dir()
    return Stage(monkeypatch)


def succeeded() -> Bench:
    bench = Bench()
    bench.start(epochs=1)
    bench.finish()
    return bench


def running() -> Bench:
    bench = Bench()
    bench.start(epochs=1)
    return bench


def run(*flags: str) -> int:
    return main(["local", "run", "job/job.yaml", *flags])


def test_success_is_exit_code_0_with_lines_for_a_person(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.play(succeeded())
    assert run() == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "logs: .spotgrad/digits/logs"
    assert lines[1].startswith("SUCCEEDED  epoch 1/1  subtasks 4/4  version 4  accuracy 0.5000")
    assert lines[1].endswith("workers replaced: 1")
    assert lines[3] == "SUCCEEDED"
    assert "  model      .spotgrad/digits/model.safetensors" in lines
    assert Path(".spotgrad/digits/model.safetensors").is_file()
    assert err == ""
    assert stage.runs[0].drained


def test_the_group_alone_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local"]) == 2
    assert capsys.readouterr() == ("", "spotgrad: Missing command. (see spotgrad local --help)\n")


def test_more_workers_than_the_job_allows_are_said_not_to_come(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.play(succeeded())
    assert run("--workers", "9") == 0
    assert capsys.readouterr().err == (
        "warning: workers.max: 8 of job.yaml keeps it below --workers 9\n"
    )


def test_json_is_one_document_and_nothing_else(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.play(succeeded())
    assert run("--json") == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["state"] == "SUCCEEDED"
    assert document["model"] == ".spotgrad/digits/model.safetensors"
    assert document["leftover"] == {"messages": 0, "processes": 0}
    assert err == ""


def test_the_flags_reach_the_run(stage: Stage) -> None:
    stage.play(succeeded())
    assert run() == run("--fresh", "--workers", "5", "--dataset", "data.npz") == run("--resume")
    plain, fresh, resumed = stage.options
    assert (plain.workers, plain.dataset, plain.resume, plain.fresh) == (2, None, False, False)
    assert (fresh.workers, fresh.dataset, fresh.resume, fresh.fresh) == (
        5,
        Path("data.npz"),
        False,
        True,
    )
    assert (resumed.resume, resumed.fresh) == (True, False)
    assert plain.job.spec.name == JOB


def degraded() -> Bench:
    bench = Bench()
    bench.start(epochs=1, retries={"failures": 0, "max_dead": 1})
    bench.aggregate(bench.failed(train(1, 0)))
    bench.finish()
    return bench


def failed() -> Bench:
    bench = Bench()
    bench.upload(retries={"failures": 0})
    bench.plan()
    bench.aggregate(bench.failed(item(0, "initialize")))
    return bench


def forged() -> Bench:
    bench = succeeded()
    bench.tamper(bench.head.model_copy(update={"results_merged": 3}))
    return bench


@pytest.mark.parametrize(
    ("make", "state"),
    [(degraded, "DEGRADED"), (failed, "FAILED"), (forged, "SUCCEEDED")],
)
def test_anything_but_a_clean_success_is_exit_code_1(
    stage: Stage, capsys: pytest.CaptureFixture[str], make: Callable[[], Bench], state: str
) -> None:
    stage.play(make())
    assert run("--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["state"] == state
    assert (document["audit"] == "clean") == (state != "SUCCEEDED")


def test_resume_and_fresh_exclude_each_other(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.play(succeeded())
    assert run("--resume", "--fresh") == 2
    assert capsys.readouterr().err == "spotgrad: --resume and --fresh: choose one\n"
    assert stage.options == []


@pytest.mark.parametrize("flags", [("--workers", "0"), ("--worker", "2"), ("more.yaml",)])
def test_wrong_usage_is_exit_code_2(
    stage: Stage, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
) -> None:
    stage.play(succeeded())
    assert run(*flags) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert stage.options == []


@pytest.mark.parametrize(("error", "code"), [(InvalidJob("a b"), 2), (Reject("a b"), 1)])
def test_an_error_is_one_line(
    stage: Stage, capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    stage.play(succeeded(), error)
    assert run("--json") == code
    out, err = capsys.readouterr()
    assert err == "spotgrad: a b\n"
    assert json.loads(out) == {"error": "a b"}


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_an_interrupted_run_says_how_to_go_on(
    stage: Stage, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
) -> None:
    stage.play(running(), KeyboardInterrupt())
    assert run(*flags) == 130
    out, err = capsys.readouterr()
    assert err.splitlines() == [
        "spotgrad: saved in .spotgrad/digits; go on with: spotgrad local run job/job.yaml --resume",
        "spotgrad: interrupted",
    ]
    if flags:
        assert json.loads(out) == {"error": "interrupted"}


def test_with_nothing_to_resume_no_such_thing_is_said(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.play(succeeded(), KeyboardInterrupt())
    assert run() == 130
    assert capsys.readouterr().err == "spotgrad: interrupted\n"
