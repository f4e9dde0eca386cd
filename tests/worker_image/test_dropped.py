"""While a worker works, the head may stop wanting what it does: cancelled, paused, done by another.

Here every check between two batches makes the round that the thread makes every third of a lease.
"""

from collections.abc import Callable
from typing import Any

import pytest

from spotgrad.errors import AccessDenied
from spotgrad.protocol.keys import AttemptKey, HeadKey
from tests.fakes.faults import Fault
from tests.fakes.store import Write
from tests.worker_image import hooks
from tests.worker_image.world import World, epoch_progress, members
from worker_image import handler
from worker_image.rounds import Rounds

ATTEMPT = AttemptKey("tiny-job", 1, "train-000000", f"{1:016x}").render()
HEAD = HeadKey("tiny-job").render()


class Prompt(Rounds):
    """Makes its round whenever it is asked."""

    def check(self) -> None:
        self.make()
        super().check()


@pytest.fixture(autouse=True)
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "Rounds", Prompt)


Meanwhile = Callable[[Callable[[], object]], list[int]]


@pytest.fixture
def meanwhile(world: World, monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Work on one subtask, something happening in its first batch; return the batches done."""

    def work(happens: Callable[[], object]) -> list[int]:
        seen: list[int] = []

        def on_batch(index: int) -> None:
            if not seen:
                happens()
            seen.append(index)

        monkeypatch.setattr(hooks, "on_batch", on_batch)
        world.send("train-000000")
        world.work()
        return seen

    return work


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "CANCELLED"},
        {"state": "PAUSED"},
        {"state": "SUCCEEDED"},
        {"run": "ffffffffffffffff"},
        {"epochs": (epoch_progress(1, merged=members(0)),)},
        {"epochs": (epoch_progress(1, dead=members(0)),)},
        {"epochs": (epoch_progress(2),)},
    ],
)
def test_what_nobody_wants_any_more_is_dropped_within_one_heartbeat(
    world: World, meanwhile: Meanwhile, changes: dict[str, Any]
) -> None:
    assert meanwhile(lambda: world.put_head(**changes)) == [0]
    assert world.results() == []
    assert world.queue.bodies() == []
    assert world.attempt("train-000000").outcome == "dropped"
    assert not [key for key in world.store.snapshot() if key.startswith("partial/")]


def test_a_job_that_is_gone_is_dropped(world: World, meanwhile: Meanwhile) -> None:
    assert meanwhile(lambda: world.store.delete(HEAD)) == [0]
    assert world.attempt("train-000000").outcome == "dropped"


def test_news_of_other_subtasks_changes_nothing(world: World, meanwhile: Meanwhile) -> None:
    merged = (epoch_progress(1, merged=members(1)),)
    assert meanwhile(lambda: world.put_head(epochs=merged)) == [0, 1, 0, 1]
    assert len(world.results()) == 1


def test_a_head_that_cannot_be_read_now_is_no_news(
    world: World, meanwhile: Meanwhile, caplog: pytest.LogCaptureFixture
) -> None:
    def trouble() -> None:
        world.store.faults.order(Fault.UNAVAILABLE, operation="get", key=HEAD)
        world.store.faults.order(Fault.UNAVAILABLE, operation="put", key=ATTEMPT)

    assert meanwhile(trouble) == [0, 1, 0, 1]
    assert len(world.results()) == 1
    assert "retry attempt record" in caplog.text


def test_a_damaged_head_is_not_the_subtasks_failure(
    world: World, meanwhile: Meanwhile, caplog: pytest.LogCaptureFixture
) -> None:
    assert meanwhile(lambda: world.store.put(HEAD, b"{}")) == [0, 1, 0, 1]
    ((metadata, _),) = world.results()
    assert metadata.outcome.kind == "trained"
    assert "head of tiny-job cannot be read" in caplog.text


def test_a_worker_that_lost_its_rights_gives_the_message_back(
    world: World, meanwhile: Meanwhile
) -> None:
    def deny(write: Write) -> None:
        if (write.moment, write.key) == ("before", ATTEMPT):
            world.store.on_write = None
            raise AccessDenied("not for you")

    def lose() -> None:
        world.store.on_write = deny

    with pytest.raises(AccessDenied):
        meanwhile(lose)
    assert world.results() == []
    assert (world.queue.in_flight(), len(world.queue.bodies())) == (0, 1)


def test_a_cancelled_job_ends_even_a_slow_wait(world: World) -> None:
    def cancel() -> None:
        world.put_head(state="CANCELLED")

    world.stop.on_wait = cancel
    world.send("train-000000")
    world.work(slow_seconds=3_600)
    assert world.stop.waits == [10]
    assert world.queue.bodies() == []
    assert world.attempt("train-000000").outcome == "dropped"


def test_a_slow_wait_is_made_in_pieces_of_a_heartbeat(world: World) -> None:
    world.send("train-000000")
    world.work(slow_seconds=25)
    assert world.stop.waits == [10, 10, 5]
    assert len(world.results()) == 1
