"""The faults that need nothing but a request: throttling, corruption, crashes."""

import pytest

from infra.local.chaos.corruption import Corruption
from infra.local.chaos.crashes import Crashes
from infra.local.chaos.dice import Dice, Tally
from infra.local.chaos.exchange import CallerGone, Request, Response
from infra.local.chaos.throttling import Throttling
from tests.infra.chaos.requests import OK, Emulator, batch, s3, sqs

RESULT = "results/j/000001/train-000000/a1.safetensors"
BODY = b"\x02" + bytes(7) + b"{}" + bytes(400)


def test_a_throttled_request_goes_nowhere() -> None:
    tally, emulator = Tally(), Emulator()
    always = Throttling(1.0, Dice(1, "throttle"), tally)
    slow = always(s3("GET", "k"), emulator)
    throttled = always(sqs("ReceiveMessage", {}), emulator)
    assert (slow.status, b"<Code>SlowDown</Code>" in slow.body) == (503, True)
    assert (throttled.status, throttled.headers["x-amzn-query-error"]) == (
        400,
        "RequestThrottled;Sender",
    )
    assert emulator.seen == []
    assert tally.snapshot() == {"throttle": 2}


def test_throttling_leaves_the_others_through() -> None:
    tally, emulator = Tally(), Emulator()
    half = Throttling(0.5, Dice(1, "throttle"), tally)
    for _ in range(200):
        half(s3("GET", "k"), emulator)
    assert len(emulator.seen) == 200 - tally.snapshot()["throttle"]
    assert 60 < len(emulator.seen) < 140


def test_only_results_are_damaged_and_the_worker_hears_of_nothing() -> None:
    tally, emulator = Tally(), Emulator()
    always = Corruption(1.0, Dice(1, "corrupt"), tally)
    others = [s3("PUT", "attempts/j/x.json", b"{}"), s3("GET", RESULT), batch("m")]
    for request in others:
        assert always(request, emulator) == OK
    assert emulator.seen == others
    assert always(s3("PUT", RESULT, BODY), emulator) == OK
    stored = emulator.seen[-1]
    assert stored.key == RESULT
    assert stored.body != BODY
    assert stored.headers["content-length"] == str(len(stored.body))
    assert tally.snapshot() == {"corrupt": 1}


def test_a_result_that_was_not_stored_was_not_damaged() -> None:
    tally = Tally(["corrupt"])
    always = Corruption(1.0, Dice(1, "corrupt"), tally)
    refused = Response(503, {}, b"")
    assert always(s3("PUT", RESULT, BODY), Emulator(refused)) is refused
    assert tally.snapshot() == {"corrupt": 0}


class Functions:
    def __init__(self, *, alive: bool = True) -> None:
        self.crashed: list[str] = []
        self.alive = alive

    def __call__(self, name: str) -> bool:
        self.crashed.append(name)
        return self.alive


@pytest.mark.parametrize(
    "request_",
    [
        s3("PUT", "state/j/head.json", caller="AggregateFunction-1"),
        s3("PUT", "models/j/x", caller="ReconcileFunction-0"),
    ],
)
def test_a_function_dies_at_its_write_before_or_after_it(request_: Request) -> None:
    functions, tally, emulator = Functions(), Tally(), Emulator()
    always = Crashes(1.0, Dice(1, "crash"), tally, functions)
    for _ in range(40):
        with pytest.raises(CallerGone):
            always(request_, emulator)
    assert functions.crashed == [request_.caller] * 40
    assert 8 < len(emulator.seen) < 32  # about half of the writes were done
    assert tally.snapshot() == {"aggregator-crash": 40}


def test_sending_is_a_write_too_and_reading_is_none() -> None:
    functions, emulator = Functions(), Emulator()
    always = Crashes(1.0, Dice(1, "crash"), Tally(), functions)
    name = "AggregateFunction-0"
    for harmless in (
        s3("GET", "state/j/head.json", caller=name),
        sqs("GetQueueAttributes", {}, caller=name),
        s3("PUT", "results/j/x", caller="local-1"),
        s3("PUT", "state/j/head.json", caller="PlanFunction-0"),
        s3("PUT", "state/j/head.json"),
    ):
        assert always(harmless, emulator) == OK
    with pytest.raises(CallerGone):
        always(sqs("SendMessageBatch", {}, caller=name), emulator)
    assert functions.crashed == [name]


def test_what_was_not_there_did_not_crash() -> None:
    tally = Tally(["aggregator-crash"])
    always = Crashes(1.0, Dice(1, "crash"), tally, Functions(alive=False))
    with pytest.raises(CallerGone):
        always(s3("PUT", "k", caller="AggregateFunction-0"), Emulator())
    assert tally.snapshot() == {"aggregator-crash": 0}
