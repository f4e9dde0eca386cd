from datetime import timedelta
from typing import Any

import pytest

from spotgrad.errors import NotFound
from spotgrad.protocol.head import (
    LIMIT,
    Check,
    Counts,
    DeadSubtask,
    Evaluation,
    EvaluationProgress,
    Opinion,
)
from spotgrad.protocol.keys import (
    AttemptKey,
    CodeKey,
    JobFileKey,
    ReceiptKey,
    RefusedKey,
    SpecKey,
)
from spotgrad.protocol.receipt import Receipt
from spotgrad.protocol.refusal import Refusal
from spotgrad.protocol.tensors import digest
from spotgrad.steps.read_status import (
    ALIVE_FOR,
    Cost,
    Quorum,
    Status,
    SubtaskCounts,
    describe,
    list_jobs,
    read_status,
)
from tests.builders import JOB, job_plan
from tests.builders import model_ref as model
from tests.fakes.clock import START
from tests.fakes.store import FakeStore
from tests.unit.cli.jobs import JOB_FILE, attempt, epoch, head, plan, put_job

NOW = START + timedelta(seconds=1)


def put_attempt(store: FakeStore, number: int, **changes: object) -> None:
    record = attempt(attempt=f"{number:016x}", **changes)
    key = AttemptKey(JOB, record.epoch, record.subtask, record.attempt)
    store.put(key.render(), record.to_json())


def test_a_running_job_is_counted_over_all_epochs() -> None:
    present = head(
        version=5,
        results_merged=5,
        epochs=(
            epoch(2, issued=[0, 1, 2, 3], merged=[1], dead=[2]),
            epoch(3, issued=[1]),
        ),
        evaluations=(EvaluationProgress(epoch=1, model=model(4), subtasks=1, issued_at=START),),
        evaluated=(
            Evaluation(epoch=1, model=model(1), metrics={"accuracy": 0.5, "loss": 2.0}),
            Evaluation(epoch=2, model=model(2), metrics={"accuracy": 0.75}),
        ),
        dead=(
            DeadSubtask(epoch=2, subtask="train-000002", reason="boom"),
            DeadSubtask(epoch=1, subtask="evaluate-000000", reason="boom"),
        ),
        counts=Counts(refused=1, failed=2, reissued=3),
    )
    status = describe(present, plan(), ["a", "b", "a"])
    assert status.subtasks == SubtaskCounts(
        total=12, merged=5, in_flight=3, rejected=1, failed=2, retried=3, dead=1
    )
    assert (status.state, status.epoch, status.epochs, status.version) == ("RUNNING", 2, 3, 5)
    assert status.metrics == {"accuracy": 0.75, "loss": 2.0}
    assert status.workers == 2
    assert status.cost == Cost(usd=None, on_demand_usd=None, saved_percent=None)
    assert [grave.subtask for grave in status.dead_subtasks] == ["train-000002", "evaluate-000000"]
    assert (status.started_at, status.updated_at) == (START, START)
    assert not status.ended


def test_the_document_holds_what_scripts_may_rely_on() -> None:
    document = describe(head(), plan()).model_dump(mode="json")
    for key in ("job", "state", "reason", "epoch", "version", "metrics", "workers"):
        assert key in document
    assert {"total", "merged", "in_flight", "rejected", "dead"} <= document["subtasks"].keys()
    assert document["cost"] == {"usd": None, "on_demand_usd": None, "saved_percent": None}
    assert document["started_at"] == document["updated_at"] == "2030-01-01T00:00:00Z"
    assert document["schema"] == 1


def test_what_only_some_rules_know_is_counted_too() -> None:
    counts = describe(head(counts=Counts(dropped=2, late=3)), plan()).subtasks
    assert (counts.dropped, counts.late) == (2, 3)


def test_a_quorum_says_who_stood_alone_and_who_is_out() -> None:
    opinion = Opinion(worker="a", attempt="0" * 16, key="results/x")
    check = Check(
        epoch=1,
        subtask="train-000000",
        model=model(1),
        opinions=(opinion,),
        begun_at=START,
        sent_at=START,
    )
    present = head(checks=(check,), dissent={"b": 1, "c": LIMIT})
    job: dict[str, Any] = {"admission": {"quorum": {"share": 0.1}}, "workers": {"max": 3}}
    asked = job_plan(4, **job)
    assert describe(present, asked).quorum == Quorum(
        checks=1, outvoted={"b": 1, "c": 2}, quarantined=("c",)
    )
    assert describe(present, plan()).quorum is None


def test_initialization_is_epoch_0_and_no_training_subtask() -> None:
    status = describe(head(state="PLANNING", epochs=(epoch(0, issued=[0]),)), plan())
    assert (status.state, status.epoch, status.subtasks.in_flight) == ("PLANNING", 0, 0)


def test_the_epoch_is_the_last_while_its_evaluation_is_out() -> None:
    assert describe(head(epochs=()), plan()).epoch == 3


def test_the_epoch_of_a_job_that_a_stop_rule_ended_is_that_of_its_final_version() -> None:
    evaluations = tuple(Evaluation(epoch=n, model=model(n), metrics={}) for n in (1, 2))
    ended = head(
        state="SUCCEEDED", epochs=(epoch(3, issued=[0]),), evaluated=evaluations, final=model(2)
    )
    status = describe(ended, plan())
    assert (status.epoch, status.subtasks.in_flight, status.ended) == (2, 0, True)


def test_workers_are_those_with_a_live_attempt_at_open_work() -> None:
    store = FakeStore()
    put_job(store, head(epochs=(epoch(1, issued=[0, 1, 2, 3], merged=[3]),)))
    put_attempt(store, 1, worker="silent")
    store.clock.advance(ALIVE_FOR.total_seconds())
    put_attempt(store, 2, worker="a")
    put_attempt(store, 3, worker="a", subtask="train-000001")
    put_attempt(store, 4, worker="b", subtask="train-000001")
    put_attempt(store, 5, worker="ended", subtask="train-000002", outcome="failed")
    put_attempt(store, 6, worker="done", subtask="train-000003")
    put_attempt(store, 7, worker="closed", epoch=2)
    put_attempt(store, 8, worker="another run", run="b" * 16)
    assert read_status(store, JOB, store.clock.now() + timedelta(seconds=1)).workers == 2
    assert read_status(store, JOB, store.clock.now()).workers == 3


@pytest.mark.parametrize("lease_seconds", [5, 3600])
def test_a_worker_that_was_silent_for_its_lease_is_none(lease_seconds: int) -> None:
    """Whoever interrupts a local run does not see its workers for minutes."""
    store = FakeStore()
    put_job(store, head())
    put_attempt(store, 1, lease_seconds=lease_seconds)
    store.clock.advance(lease_seconds)
    assert read_status(store, JOB, store.clock.now()).workers == 1
    store.clock.advance(1)
    assert read_status(store, JOB, store.clock.now()).workers == 0


def test_an_ended_job_has_no_workers() -> None:
    store = FakeStore()
    put_job(store, head(state="CANCELLED"))
    put_attempt(store, 1)
    assert read_status(store, JOB, NOW).workers == 0


def test_the_cost_is_that_of_the_receipt_of_this_run() -> None:
    store = FakeStore()
    put_job(store, head())
    receipt = Receipt(job=JOB, run=head().run, usd_per_hour=0.5, worker_seconds=3600, usd=0.5)
    store.put(ReceiptKey(JOB).render(), receipt.to_json())
    assert read_status(store, JOB, NOW).cost == Cost(usd=0.5)
    another = receipt.model_copy(update={"run": "b" * 16})
    store.put(ReceiptKey(JOB).render(), another.to_json())
    assert read_status(store, JOB, NOW).cost == Cost()


def test_an_unknown_job_is_not_found() -> None:
    with pytest.raises(NotFound, match=f"job '{JOB}': not in this bucket"):
        read_status(FakeStore(), JOB, NOW)


def test_a_submitted_job_is_being_planned() -> None:
    store = FakeStore()
    store.put(JobFileKey(JOB).render(), JOB_FILE)
    assert read_status(store, JOB, NOW) == Status(job=JOB, state="PLANNING")


def test_a_plan_without_a_head_is_still_planning() -> None:
    store = FakeStore()
    store.put(SpecKey(JOB).render(), plan().to_json())
    status = read_status(store, JOB, NOW)
    assert (status.state, status.epochs, status.subtasks.total) == ("PLANNING", 3, 12)


REFUSAL = Refusal(job=JOB, job_file_sha256=digest(JOB_FILE), reason="no such data set", at=START)


@pytest.mark.parametrize("job_file", [None, JOB_FILE])
def test_a_refused_job_failed_and_says_why(job_file: bytes | None) -> None:
    store = FakeStore()
    store.put(RefusedKey(JOB).render(), REFUSAL.to_json())
    if job_file is not None:
        store.put(JobFileKey(JOB).render(), job_file)
    status = read_status(store, JOB, NOW)
    assert (status.state, status.reason, status.updated_at) == ("FAILED", "no such data set", START)


def test_a_corrected_job_file_after_a_refusal_is_being_planned() -> None:
    store = FakeStore()
    store.put(RefusedKey(JOB).render(), REFUSAL.to_json())
    store.put(JobFileKey(JOB).render(), JOB_FILE + b"\n")
    assert read_status(store, JOB, NOW).state == "PLANNING"


def test_jobs_are_listed_by_their_job_files() -> None:
    store = FakeStore()
    for job in ("b", "a"):
        store.put(JobFileKey(job).render(), JOB_FILE)
    store.put(CodeKey("c", "0" * 64).render(), b"zip")
    store.put("jobs/notes.txt", b"")
    assert list(list_jobs(store)) == ["a", "b"]
