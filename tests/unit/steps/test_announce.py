import json
from typing import Any

import pytest

from spotgrad.errors import StoreUnavailable
from spotgrad.protocol.control import Control
from spotgrad.protocol.keys import (
    AnnouncedKey,
    ControlKey,
    HeadKey,
    JobFileKey,
    ReceiptKey,
    RefusedKey,
)
from spotgrad.protocol.receipt import Receipt
from spotgrad.protocol.refusal import Refusal
from spotgrad.steps.announce import Standing, announce, announce_refusal
from spotgrad.steps.control_job import control_job
from tests.builders import JOB, Bench, train
from tests.fakes.announcer import FakeAnnouncer

NOTE = AnnouncedKey(JOB).render()


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.start(4, budget={"max_usd": 2}, workers={"usd_per_hour": 0.5})
    return made


@pytest.fixture
def listener() -> FakeAnnouncer:
    return FakeAnnouncer()


def want(bench: Bench, wish: str) -> None:
    bench.store.put(ControlKey(JOB).render(), Control.model_validate({"want": wish}).to_json())
    control_job(bench.world, JOB)


def test_every_new_state_is_told_once(bench: Bench, listener: FakeAnnouncer) -> None:
    assert announce(bench.world, listener, JOB) == Standing("RUNNING")
    bench.aggregate(bench.trained(1, 0))
    assert announce(bench.world, listener, JOB) == Standing()
    want(bench, "pause")
    assert announce(bench.world, listener, JOB) == Standing("PAUSED")
    want(bench, "run")
    assert announce(bench.world, listener, JOB) == Standing("RUNNING")
    assert [subject for subject, _ in listener.heard] == [
        "spotgrad: digits is RUNNING",
        "spotgrad: digits is PAUSED",
        "spotgrad: digits is RUNNING",
    ]


def test_the_message_says_how_far_the_job_is(bench: Bench, listener: FakeAnnouncer) -> None:
    bench.aggregate(bench.trained(1, 0))
    announce(bench.world, listener, JOB)
    ((_, body),) = listener.heard
    said = json.loads(body)
    assert (said["schema"], said["job"], said["run"]) == (1, JOB, bench.head.run)
    assert (said["state"], said["version"], said["results_merged"]) == ("RUNNING", 1, 1)


def test_another_run_in_the_same_state_is_told(bench: Bench, listener: FakeAnnouncer) -> None:
    announce(bench.world, listener, JOB)
    other = bench.head.model_copy(update={"run": "bb" * 8})
    bench.store.put(HeadKey(JOB).render(), other.to_json())
    assert announce(bench.world, listener, JOB).announced == "RUNNING"


def test_what_nobody_heard_is_told_again(bench: Bench, listener: FakeAnnouncer) -> None:
    listener.deaf = 1
    with pytest.raises(StoreUnavailable):
        announce(bench.world, listener, JOB)
    assert announce(bench.world, listener, JOB).announced == "RUNNING"


def test_a_damaged_note_costs_one_message_too_many(bench: Bench, listener: FakeAnnouncer) -> None:
    bench.store.put(NOTE, b"damaged")
    assert announce(bench.world, listener, JOB).announced == "RUNNING"
    assert announce(bench.world, listener, JOB).announced is None


def test_without_a_listener_nothing_is_written(bench: Bench) -> None:
    before = bench.store.snapshot()
    assert announce(bench.world, None, JOB) == Standing()
    assert bench.store.snapshot() == before


def test_a_job_without_head_has_no_standing(listener: FakeAnnouncer) -> None:
    assert announce(Bench().world, listener, JOB) == Standing()
    assert listener.heard == []


def test_a_job_that_stands_still_is_stalled(bench: Bench) -> None:
    bench.clock.advance(30 * 60)
    bench.reconcile()
    assert bench.head.reason is not None
    assert announce(bench.world, None, JOB).stalled
    want(bench, "pause")
    assert not announce(bench.world, None, JOB).stalled


def test_the_budget_is_used_as_the_receipt_says(bench: Bench) -> None:
    bench.clock.advance(3600)
    bench.attempt(train(1, 0), "uploaded", seconds=3600)
    bench.reconcile()
    receipt = Receipt.from_json(bench.store.get(ReceiptKey(JOB).render()).body)
    assert receipt.usd == pytest.approx(0.5)
    assert announce(bench.world, None, JOB).budget_used_percent == pytest.approx(25)


@pytest.mark.parametrize("budget", [{}, {"budget": {"deadline": "6h"}}])
def test_without_a_limit_nothing_of_it_is_used(budget: dict[str, Any]) -> None:
    bench = Bench()
    bench.start(4, workers={"usd_per_hour": 0.5}, **budget)
    bench.reconcile()
    assert announce(bench.world, None, JOB).budget_used_percent is None


def refused() -> Bench:
    bench = Bench()
    bench.upload()
    bench.store.put(JobFileKey(JOB).render(), b"name: [")
    assert bench.plan().outcome == "refused"
    return bench


def test_a_refusal_is_told_once(listener: FakeAnnouncer) -> None:
    bench = refused()
    assert announce_refusal(bench.world, listener, JOB)
    assert not announce_refusal(bench.world, listener, JOB)
    bench.plan()  # the same event again
    assert not announce_refusal(bench.world, listener, JOB)
    ((subject, body),) = listener.heard
    assert subject == "spotgrad: job file of digits refused"
    assert json.loads(body)["reason"].startswith("job file: ")


def test_a_refusal_that_could_not_be_told_is_told_when_it_comes_again(
    listener: FakeAnnouncer,
) -> None:
    bench = refused()
    listener.deaf = 1
    with pytest.raises(StoreUnavailable):
        announce_refusal(bench.world, listener, JOB)
    assert not Refusal.from_json(bench.store.get(RefusedKey(JOB).render()).body).told
    bench.plan()
    assert announce_refusal(bench.world, listener, JOB)


def test_without_a_refusal_nothing_is_told(bench: Bench, listener: FakeAnnouncer) -> None:
    assert not announce_refusal(bench.world, listener, JOB)
    assert listener.heard == []
