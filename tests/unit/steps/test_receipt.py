from datetime import timedelta

import pytest

from spotgrad.protocol.attempt import AttemptOutcome
from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.head import WorkItem
from spotgrad.protocol.keys import AttemptKey, ReceiptKey
from spotgrad.protocol.receipt import Receipt
from spotgrad.steps import receipt as module
from spotgrad.steps.receipt import find_receipt, renew_receipt
from tests.builders import JOB, LEASE_SECONDS, Bench, evaluation, item, train

RECEIPT = ReceiptKey(JOB).render()
QUIET = 2 * LEASE_SECONDS + 1
PRICE = 3.6


@pytest.fixture
def bench() -> Bench:
    """A priced job of 2 epochs of 2 shards, an hour after its start, epoch 1 out."""
    made = Bench()
    made.start(2, workers={"usd_per_hour": PRICE}, retries={"max_dead": 1})
    made.clock.advance(3600)
    return made


def renew(bench: Bench) -> Receipt:
    receipt = renew_receipt(bench.world, bench.head, lease_seconds=LEASE_SECONDS)
    assert receipt is not None
    assert receipt == find_receipt(bench.store, bench.head)
    return receipt


def worked(
    bench: Bench, of: WorkItem, seconds: float, outcome: AttemptOutcome | None = "uploaded"
) -> None:
    bench.attempt(of, outcome, seconds=seconds)


def lists_and_gets(bench: Bench) -> int:
    return bench.store.calls["list"] + bench.store.calls["get"]


def test_without_a_price_there_is_no_receipt() -> None:
    bench = Bench()
    bench.start(2)
    calls = bench.store.calls.copy()
    assert renew_receipt(bench.world, bench.head, lease_seconds=LEASE_SECONDS) is None
    assert bench.store.calls - calls == {"get": 1}  # bench.head


def test_every_attempt_counts_up_to_its_last_beat(bench: Bench) -> None:
    worked(bench, item(0, "initialize"), 10)
    worked(bench, train(1, 0), 100)
    worked(bench, train(1, 0), 20, "failed")
    worked(bench, train(1, 1), 30, None)
    receipt = renew(bench)
    assert [(row.epoch, row.worker_seconds) for row in receipt.epochs] == [(0, 10), (1, 150)]
    assert receipt.worker_seconds == 160
    assert receipt.usd == pytest.approx(160 * PRICE / 3600)
    assert (receipt.on_demand_usd, receipt.saved_percent) == (None, None)


def test_nothing_new_is_not_written_again(bench: Bench) -> None:
    worked(bench, train(1, 0), 100)
    renew(bench)
    puts = bench.store.calls["put"]
    bench.clock.advance(60)
    renew(bench)
    assert bench.store.calls["put"] == puts


def test_what_is_done_and_quiet_is_read_no_more(bench: Bench) -> None:
    worked(bench, train(1, 0), 100)
    worked(bench, train(1, 1), 7, None)
    bench.aggregate(bench.trained(1, 0))
    row = renew(bench).epochs[1]
    assert (row.worker_seconds, row.counted_seconds, row.trained) == (107, 0, Bitmap())
    bench.clock.advance(QUIET)
    row = renew(bench).epochs[1]
    assert (row.worker_seconds, row.counted_seconds, row.trained) == (107, 100, Bitmap.of([0]))
    bench.start_cold()
    gets = bench.store.calls["get"]
    assert renew(bench).worker_seconds == 107
    # The head twice, the plan, the receipt twice, and the one record that is open.
    assert bench.store.calls["get"] - gets == 6
    assert renew(bench).worker_seconds == 107
    assert bench.store.calls["get"] - gets == 6 + 4  # a warm function remembers plan and record


def test_a_closed_epoch_is_settled_and_listed_no_more(bench: Bench) -> None:
    worked(bench, train(1, 0), 100)
    worked(bench, train(1, 1), 50)
    worked(bench, evaluation(1), 5)
    bench.aggregate(bench.trained(1, 0), bench.trained(1, 1))
    bench.clock.advance(QUIET)
    row = renew(bench).epochs[1]
    assert (row.settled, row.worker_seconds) == (False, 155)  # its evaluation is out
    bench.aggregate(bench.evaluated(1))
    row = renew(bench).epochs[1]
    assert (row.settled, row.worker_seconds, row.counted_seconds) == (True, 155, 155)
    assert (row.trained, row.evaluated) == (Bitmap(), Bitmap())
    lists = bench.store.calls["list"]
    assert renew(bench).epochs[1] == row
    assert bench.store.calls["list"] - lists == 1  # epoch 2


def test_an_evaluation_that_is_over_is_counted_while_another_runs() -> None:
    bench = Bench()
    bench.start(2, evaluation_shards=2, workers={"usd_per_hour": PRICE})
    bench.clock.advance(3600)
    worked(bench, evaluation(1, 1), 5)
    bench.aggregate(bench.trained(1, 0), bench.trained(1, 1))
    bench.aggregate(bench.evaluated(1, 1, accuracy=0.5))
    bench.clock.advance(QUIET)
    row = renew(bench).epochs[1]
    assert (row.settled, row.evaluated, row.counted_seconds) == (False, Bitmap.of([1]), 5)


def test_a_late_loser_keeps_its_epoch_open(bench: Bench) -> None:
    worked(bench, train(1, 0), 100)
    bench.aggregate(bench.trained(1, 0), bench.trained(1, 1))
    bench.aggregate(bench.evaluated(1))
    bench.clock.advance(QUIET)
    worked(bench, train(1, 0), 240, None)
    row = renew(bench).epochs[1]
    assert (row.settled, row.worker_seconds) == (False, 340)
    bench.clock.advance(QUIET)
    assert renew(bench).epochs[1].settled


def test_an_ended_job_settles(bench: Bench) -> None:
    worked(bench, train(1, 0), 100)
    bench.finish()
    bench.clock.advance(QUIET)
    receipt = renew(bench)
    assert [row.settled for row in receipt.epochs] == [True, True, True]
    before = lists_and_gets(bench)
    assert renew(bench) == receipt
    assert lists_and_gets(bench) - before == 4  # heads and receipts


def test_a_job_that_was_cut_has_no_costs_of_epochs_that_never_began(bench: Bench) -> None:
    bench.tamper(bench.head.model_copy(update={"state": "DEGRADED"}))
    assert [row.epoch for row in renew(bench).epochs] == [0, 1]


def test_a_redriven_epoch_is_added_up_anew(bench: Bench) -> None:
    worked(bench, train(1, 0), 100)
    worked(bench, train(1, 1), 50)
    bench.aggregate(bench.trained(1, 0), bench.trained(1, 1))
    bench.aggregate(bench.evaluated(1))
    bench.clock.advance(QUIET)
    assert renew(bench).epochs[1].settled
    head = bench.head
    late = head.epochs[0].model_copy(update={"epoch": 1, "issued": Bitmap.of([1])})
    bench.tamper(head.model_copy(update={"late": (late,)}))
    worked(bench, train(1, 1), 8, None)
    row = renew(bench).epochs[1]
    assert (row.settled, row.worker_seconds, row.counted_seconds) == (False, 158, 100)


def test_a_subtask_that_is_open_again_within_its_epoch_is_added_up_anew(bench: Bench) -> None:
    worked(bench, train(1, 0), 100)
    head = bench.head
    dead = head.epochs[0].model_copy(update={"dead": Bitmap.of([0])})
    bench.tamper(head.model_copy(update={"epochs": (dead,)}))
    bench.clock.advance(QUIET)
    assert renew(bench).epochs[1].trained == Bitmap.of([0])
    bench.tamper(head)
    worked(bench, train(1, 0), 3, None)
    row = renew(bench).epochs[1]
    assert (row.worker_seconds, row.counted_seconds) == (103, 0)


def test_a_backlog_is_worked_off_pass_by_pass(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_FETCHED", 1)
    for shard, seconds in ((0, 100), (1, 50)):
        worked(bench, train(1, shard), seconds)
    bench.aggregate(bench.trained(1, 0), bench.trained(1, 1))
    bench.aggregate(bench.evaluated(1))
    bench.clock.advance(QUIET)
    rows = [renew(bench).epochs[1] for _ in range(3)]
    assert [(row.worker_seconds, row.settled) for row in rows] == [
        (100, False),
        (150, True),
        (150, True),
    ]


def test_a_clock_that_jumped_spends_no_more_than_the_age_of_the_job(bench: Bench) -> None:
    worked(bench, train(1, 0), timedelta(days=9).total_seconds())
    worked(bench, train(1, 1), -50)
    assert renew(bench).worker_seconds == 3600


def test_damaged_records_cost_nothing(bench: Bench) -> None:
    bench.store.put(AttemptKey(JOB, 1, "train-000000", "ab" * 8).render(), b"{}")
    assert renew(bench).usd == 0


@pytest.mark.parametrize("damage", ["damaged", "another run"])
def test_a_receipt_that_is_not_this_runs_is_made_anew(bench: Bench, damage: str) -> None:
    worked(bench, train(1, 0), 100)
    receipt = renew(bench)
    other = receipt.model_copy(update={"run": "bb" * 8, "usd": 99.0})
    bench.store.put(RECEIPT, b"{" if damage == "damaged" else other.to_json())
    assert find_receipt(bench.store, bench.head) is None
    assert renew(bench) == receipt
