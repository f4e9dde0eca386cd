from datetime import timedelta

from spotgrad.planning.fold import bury
from spotgrad.protocol.keys import LedgerKey
from spotgrad.protocol.ledger import SetAside
from spotgrad.steps.succession import entry_for, successor
from tests.builders import JOB, begun, job_plan, train
from tests.fakes.clock import START

LATER = START + timedelta(seconds=7)
COMMIT = "cc" * 8
BEFORE = begun(job_plan())


def test_a_successor_is_one_revision_on_and_names_its_predecessor() -> None:
    after = BEFORE.model_copy(update={"results_merged": 3, "outbox": (train(1, 0),)})
    made = successor(BEFORE, after, commit=COMMIT, now=LATER)
    ledger = LedgerKey(JOB, 1, COMMIT).render()
    assert (made.head.revision, made.head.commit, made.head.ledger) == (1, COMMIT, ledger)
    assert made.head.updated_at == made.entry.at == LATER
    assert made.head.started_at == START
    assert (made.entry.revision, made.entry.commit) == (1, COMMIT)
    assert made.entry.previous == BEFORE.ledger
    assert (made.entry.state, made.entry.version, made.entry.results_merged) == ("RUNNING", 0, 3)
    assert made.entry.issued == (train(1, 0),)


def test_burials_and_closed_epochs_are_read_off_the_heads() -> None:
    before = bury(BEFORE, train(1, 0), "first", None)
    after = bury(before, train(1, 1), "second", None).model_copy(update={"epochs": ()})
    entry = successor(before, after, commit=COMMIT, now=LATER).entry
    assert [grave.reason for grave in entry.dead] == ["second"]
    assert entry.closed_epochs == (1,)
    entry = successor(before, before, commit=COMMIT, now=LATER).entry
    assert (entry.dead, entry.closed_epochs) == ((), ())


def test_a_commit_that_gets_the_job_on_says_when_and_takes_the_cause_of_a_standstill_away() -> None:
    stuck = BEFORE.model_copy(update={"reason": "no worker has begun anything"})
    still = successor(stuck, stuck, commit=COMMIT, now=LATER).head
    assert (still.progressed_at, still.reason) == (None, stuck.reason)
    moved = successor(stuck, bury(stuck, train(1, 0), "x", None), commit=COMMIT, now=LATER).head
    assert (moved.progressed_at, moved.reason) == (LATER, None)
    ended = stuck.model_copy(update={"state": "CANCELLED"})
    assert successor(stuck, ended, commit=COMMIT, now=LATER).head.reason == stuck.reason
    worded = stuck.model_copy(update={"state": "PAUSED", "reason": "as the user asked"})
    assert successor(stuck, worded, commit=COMMIT, now=LATER).head.reason == "as the user asked"


def test_further_facts_go_into_the_entry() -> None:
    row = SetAside(epoch=1, subtask="train-000000", attempt="ab" * 4, key="key", reason="NaN")
    made = successor(BEFORE, BEFORE, commit=COMMIT, now=LATER, refused=(row,))
    assert made.entry.refused == (row,)


def test_the_first_entry_has_no_predecessor() -> None:
    entry = entry_for(BEFORE, previous=None)
    assert (entry.revision, entry.previous, entry.at) == (0, None, START)
