from pathlib import Path

import pytest

from spotgrad.cli.dlq import Wanted, redrive
from spotgrad.cli.output import Output
from spotgrad.directory.store import DirectoryStore
from spotgrad.protocol.control import Control
from spotgrad.protocol.head import WorkItem
from spotgrad.protocol.keys import ControlKey
from spotgrad.steps.change_control import read_control
from tests.builders import JOB, Bench, manifest, train
from tests.fakes.ids import FakeIds
from tests.unit.cli.conftest import Run
from tests.unit.cli.jobs import head, put_job, saved


@pytest.fixture
def bench() -> Bench:
    """Shard 3 is dead in both epochs; the job ended DEGRADED."""
    made = Bench()
    made.start(retries={"failures": 0, "max_dead": 2})
    for epoch in (1, 2):
        made.aggregate(made.failed(train(epoch, 3), f"ValueError: epoch {epoch}"))
        made.aggregate(*(made.trained(epoch, shard) for shard in range(3)))
    made.finish()
    return made


@pytest.fixture
def store(bench: Bench, bucket: Path) -> DirectoryStore:
    return saved(bench, bucket)


@pytest.mark.usefixtures("store")
def test_dead_subtasks_are_listed_from_the_head(run: Run, bench: Bench, bucket: Path) -> None:
    ran = run("dlq", "list", JOB, "--bucket", bucket)
    assert ran.code == 0
    assert [line.split()[:2] for line in ran.out.splitlines()] == [
        ["EPOCH", "SUBTASK"],
        ["1", "train-000003"],
        ["2", "train-000003"],
        ["next:", "spotgrad"],
        ["next:", "spotgrad"],
    ]
    assert "failed 1 times, last: ValueError: epoch 1" in ran.out
    assert bench.head.dead[0].evidence in ran.out.split()


@pytest.mark.usefixtures("store")
def test_the_traceback_comes_from_the_result(run: Run, bench: Bench, bucket: Path) -> None:
    lines = run("dlq", "list", JOB, "--verbose", "--bucket", bucket).out.splitlines()
    assert lines[:6] == [
        "1/train-000003: failed 1 times, last: ValueError: epoch 1",
        f"  shard     {manifest().splits['train'].shards[3].key}",
        "  worker    worker-a",
        f"  evidence  {bench.head.dead[0].evidence}",
        "Traceback",
        "ValueError: epoch 1",
    ]
    first, second = run("dlq", "list", JOB, "--json", "--bucket", bucket).document["dead"]
    assert (first["epoch"], first["attempts"]) == (1, 1)
    assert first["found"]["traceback"] == "Traceback\nValueError: epoch 1"
    assert second["found"]["error"] == "ValueError: epoch 2"


def test_what_has_expired_is_said_so(
    run: Run, bench: Bench, store: DirectoryStore, bucket: Path
) -> None:
    store.delete(bench.head.dead[0].evidence or "")
    lines = run("dlq", "list", JOB, "--verbose", "--bucket", bucket).out.splitlines()
    assert lines[3] == "  no traceback: the result has expired or reports none"


def test_nothing_dead_is_nothing_to_do(run: Run, bucket: Path) -> None:
    store = DirectoryStore(bucket)
    put_job(store, head())
    assert run("dlq", "list", JOB, "--bucket", bucket).out == f"{JOB} has no dead subtasks\n"
    assert run("dlq", "list", JOB, "--json", "--bucket", bucket).document["dead"] == []
    ran = run("dlq", "redrive", JOB, "--all", "--bucket", bucket)
    assert (ran.code, ran.out) == (0, f"{JOB} has no dead subtasks: nothing to do\n")
    assert list(store.list(ControlKey(JOB).render())) == []


@pytest.mark.parametrize(
    ("arguments", "epochs"),
    [(["--all"], [1, 2]), (["train-000003"], [1, 2]), (["2/train-000003"], [2])],
)
def test_a_redrive_is_written_as_a_wish(
    run: Run, store: DirectoryStore, bucket: Path, arguments: list[str], epochs: list[int]
) -> None:
    run("dlq", "redrive", JOB, *arguments, "--bucket", bucket)
    first = read_control(store, JOB).redrive
    assert first is not None
    assert first.subtasks == tuple(WorkItem(epoch=one, subtask="train-000003") for one in epochs)
    ran = run("dlq", "redrive", JOB, *arguments, "--json", "--bucket", bucket)
    assert [one["epoch"] for one in ran.document["redriven"]] == epochs
    again = read_control(store, JOB).redrive
    assert again is not None
    assert again.token != first.token


@pytest.mark.usefixtures("store")
def test_who_carries_the_wish_out_is_said(run: Run, bucket: Path) -> None:
    """In a folder no function is at work."""
    ran = run("dlq", "redrive", JOB, "--all", "--bucket", bucket)
    assert ran.out.splitlines()[-1] == "next: spotgrad local run JOB.yaml --resume"


def test_of_a_bucket_the_functions_do(
    store: DirectoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    redrive(store, FakeIds(), Wanted(JOB, ()), Output(as_json=False))
    assert capsys.readouterr().out.splitlines()[-1] == f"next: spotgrad watch {JOB}"


def test_of_many_a_few_are_named(run: Run, bench: Bench, bucket: Path) -> None:
    (grave, _) = bench.head.dead
    many = [grave.model_copy(update={"epoch": epoch}) for epoch in range(1, 8)]
    put_job(DirectoryStore(bucket), head(dead=tuple(many)))
    ran = run("dlq", "redrive", JOB, "--all", "--bucket", bucket)
    assert ran.out.splitlines()[0].endswith("5/train-000003 and 2 more")


def test_what_is_not_dead_is_a_usage_error(run: Run, store: DirectoryStore, bucket: Path) -> None:
    ran = run("dlq", "redrive", JOB, "train-000001", "--bucket", bucket)
    assert ran.code == 2
    assert ran.err == (
        "spotgrad: job digits: 'train-000001' is not dead; "
        "dead are: 1/train-000003, 2/train-000003\n"
    )
    assert list(store.list(ControlKey(JOB).render())) == []


@pytest.mark.parametrize("arguments", [[], ["--all", "train-000003"]])
def test_one_says_which(run: Run, bucket: Path, arguments: list[str]) -> None:
    ran = run("dlq", "redrive", JOB, *arguments, "--bucket", bucket)
    assert ran.code == 2
    assert "--all" in ran.err


def test_an_earlier_wish_to_stop_does_not_hold_an_ended_job_back(
    run: Run, store: DirectoryStore, bucket: Path
) -> None:
    store.put(ControlKey(JOB).render(), Control(want="cancel").to_json())
    run("dlq", "redrive", JOB, "--all", "--bucket", bucket)
    assert read_control(store, JOB).want == "run"


def test_a_paused_job_stays_paused_and_a_cancelled_one_is_over(
    run: Run, bench: Bench, bucket: Path
) -> None:
    store, dead = DirectoryStore(bucket), bench.head.dead
    put_job(store, head(state="PAUSED", dead=dead))
    store.put(ControlKey(JOB).render(), Control(want="pause").to_json())
    assert run("dlq", "redrive", JOB, "--all", "--bucket", bucket).code == 0
    assert read_control(store, JOB).want == "pause"
    store.put(ControlKey(JOB).render(), Control(want="cancel").to_json())
    ran = run("dlq", "redrive", JOB, "--all", "--bucket", bucket)
    assert (ran.code, "being cancelled" in ran.err) == (1, True)
    put_job(store, head(state="CANCELLED", dead=dead))
    ran = run("dlq", "redrive", JOB, "--all", "--bucket", bucket)
    assert (ran.code, "it is CANCELLED" in ran.err) == (1, True)
