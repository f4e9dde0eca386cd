from pathlib import Path

import pytest

from spotgrad.cli import queues
from spotgrad.directory.store import DirectoryStore
from tests.builders import JOB
from tests.fakes.faults import Fault
from tests.fakes.queue import FakeQueue
from tests.unit.cli.conftest import Run
from tests.unit.cli.jobs import head, put_job

Pair = tuple[FakeQueue, FakeQueue]


@pytest.fixture
def pairs(monkeypatch: pytest.MonkeyPatch) -> dict[str, Pair]:
    """Dead letters and queue by name; the environment names all three."""
    made: dict[str, Pair] = {name: (FakeQueue(), FakeQueue()) for name in queues.NAMES}
    for name in made:
        monkeypatch.setenv(f"SPOTGRAD_{name.upper()}_QUEUE_URL", f"https://queue/{name}")
    monkeypatch.setattr(queues, "_open", lambda url: made[url.rpartition("/")[2]])
    made["results"][0].send(["a", "b"])
    made["subtasks"][0].send(["c"])
    return made


@pytest.mark.usefixtures("pairs")
def test_the_queues_are_counted(run: Run) -> None:
    assert run("dlq", "list").out.splitlines() == [
        "QUEUE     DEAD LETTERS  PROBLEM",
        "uploads   0             -",
        "results   2             -",
        "subtasks  1             -",
        "next: spotgrad dlq redrive --queue all",
    ]
    assert run("dlq", "list", "--json").document == {
        "queues": [
            {"queue": "uploads", "dead_letters": 0, "problem": None},
            {"queue": "results", "dead_letters": 2, "problem": None},
            {"queue": "subtasks", "dead_letters": 1, "problem": None},
        ]
    }


def test_one_that_holds_something_is_named(run: Run, pairs: dict[str, Pair]) -> None:
    run("dlq", "redrive", "--queue", "subtasks")
    assert run("dlq", "list").out.splitlines()[-1] == "next: spotgrad dlq redrive --queue results"
    run("dlq", "redrive", "--queue", "results")
    assert run("dlq", "list").out.splitlines()[-1].split() == ["subtasks", "0", "-"]
    assert pairs["results"][1].bodies() == ["a", "b"]


def test_a_job_s_list_counts_them_too(run: Run, pairs: dict[str, Pair], bucket: Path) -> None:
    put_job(DirectoryStore(bucket), head())
    ran = run("dlq", "list", JOB, "--bucket", bucket)
    assert ran.out.splitlines()[:2] == [
        f"{JOB} has no dead subtasks",
        "QUEUE     DEAD LETTERS  PROBLEM",
    ]
    pairs["results"][0].faults.order(Fault.UNAVAILABLE, operation="depth")
    ran = run("dlq", "list", JOB, "--json", "--bucket", bucket)
    assert ran.code == 0  # the job's own dead are what was asked for
    assert ran.document["dead"] == []
    assert ran.document["queues"][1] == {
        "queue": "results",
        "dead_letters": None,
        "problem": "depth: injected SlowDown",
    }


def test_without_a_queue_s_name_a_job_s_list_says_nothing_of_queues(run: Run, bucket: Path) -> None:
    put_job(DirectoryStore(bucket), head())
    assert run("dlq", "list", JOB, "--bucket", bucket).out == f"{JOB} has no dead subtasks\n"
    assert run("dlq", "list", JOB, "--json", "--bucket", bucket).document["queues"] == []


def test_all_are_sent_back(run: Run, pairs: dict[str, Pair]) -> None:
    assert run("dlq", "redrive", "--queue", "all").out.splitlines() == [
        "uploads: 0 messages sent back",
        "results: 2 messages sent back",
        "subtasks: 1 messages sent back",
    ]
    assert [queue.bodies() for _, queue in pairs.values()] == [[], ["a", "b"], ["c"]]
    assert not any(graves.bodies() for graves, _ in pairs.values())


def test_one_that_fails_holds_no_other_up(run: Run, pairs: dict[str, Pair]) -> None:
    pairs["results"][1].faults.order(Fault.UNAVAILABLE, operation="send")
    ran = run("dlq", "redrive", "--queue", "all", "--json")
    assert ran.code == 1
    assert ran.document["queues"] == [
        {"queue": "uploads", "moved": 0, "left": 0, "problem": None},
        {"queue": "results", "moved": None, "left": None, "problem": "send: injected SlowDown"},
        {"queue": "subtasks", "moved": 1, "left": 0, "problem": None},
    ]
    assert sorted(pairs["results"][0].bodies()) == ["a", "b"]
    ran = run("dlq", "redrive", "--queue", "results")  # they are leased by the first try
    assert ran.out == (
        "results: 0 messages sent back, 2 lie there still: run it again in a minute\n"
    )
    pairs["uploads"][0].faults.order(Fault.UNAVAILABLE, operation="depth")
    ran = run("dlq", "list")
    assert (ran.code, "injected SlowDown" in ran.out) == (1, True)


def test_a_queue_that_is_not_named_is_a_usage_error(
    run: Run, pairs: dict[str, Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPOTGRAD_SUBTASKS_QUEUE_URL")
    ran = run("dlq", "redrive", "--queue", "all")
    assert ran.code == 2
    assert ran.err == (
        "spotgrad: --queue all: set SPOTGRAD_SUBTASKS_QUEUE_URL to the queue's URL\n"
    )
    assert pairs["results"][1].bodies() == []  # nothing is half-done
    assert run("dlq", "redrive", "--queue", "results").code == 0
    monkeypatch.delenv("SPOTGRAD_UPLOADS_QUEUE_URL")
    monkeypatch.delenv("SPOTGRAD_RESULTS_QUEUE_URL")
    ran = run("dlq", "list")
    assert ran.code == 2
    assert ran.err.startswith("spotgrad: no queue is named: set one of SPOTGRAD_UPLOADS_QUEUE_URL")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["redrive", JOB, "--queue", "all"], "leave JOB and --all out"),
        (["redrive", "--all", "--queue", "all"], "leave JOB and --all out"),
        (["redrive", "--queue", "others"], "'others' is not one of 'uploads', 'results'"),
        (["redrive"], "name a job (its dead subtasks), or --queue (messages)"),
        (["redrive", JOB, "--all"], "give --bucket or set SPOTGRAD_BUCKET"),
        (["list", JOB], "give --bucket or set SPOTGRAD_BUCKET"),
    ],
)
def test_one_says_which(run: Run, pairs: dict[str, Pair], arguments: list[str], words: str) -> None:
    ran = run("dlq", *arguments)
    assert ran.code == 2
    assert words in ran.err
    assert pairs["results"][1].bodies() == []
