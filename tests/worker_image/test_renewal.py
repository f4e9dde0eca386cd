"""One process per job's code: in the loop with fakes, and real processes in their own place."""

import builtins
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import pytest

from spotgrad.ports import Message
from spotgrad.protocol.result import Trained
from spotgrad.settings import MissingSetting
from tests.contract.moto_server import served
from tests.worker_image.test_process import Cloud, process, read_until
from tests.worker_image.world import LEASE_SECONDS, TASK, World
from worker_image.interruption import SIGNALS, Stop
from worker_image.renewal import HELD, OtherCode, arguments_of, held_in, renew

MARK = "first_job_was_here"
OTHER = f"import builtins\n{TASK}\nassert not hasattr(builtins, {MARK!r})\n"
FIRST = TASK + f"\nimport builtins\nbuiltins.{MARK} = True\n"
OTHER_RUN = "ab" * 8
MESSAGE = Message(message_id="m-1", body='{"é": 1}', receipt="r-1", receive_count=3)


@pytest.fixture
def both() -> Iterator[World]:
    """The tiny job, and beside it another one with other code, in one bucket and one queue."""
    world, other = World(task_text=FIRST), World(task_text=OTHER, run=OTHER_RUN, name="other-job")
    for key, body in other.store.snapshot().items():
        world.store.put(key, body)
    world.send("train-000000")
    other.send("train-000000")
    world.queue.send(other.queue.bodies())
    yield world
    other.close()
    begin_anew(world)
    world.close()


def begin_anew(world: World) -> None:
    """What another process would not know of."""
    world.code.close()
    if hasattr(builtins, MARK):
        delattr(builtins, MARK)


def trained(world: World) -> list[str]:
    return sorted(
        metadata.job for metadata, _ in world.results() if isinstance(metadata.outcome, Trained)
    )


def test_a_message_that_needs_other_code_is_handed_on_under_a_fresh_lease(both: World) -> None:
    with pytest.raises(OtherCode) as caught:
        both.work()
    assert trained(both) == ["tiny-job"]
    both.clock.advance(LEASE_SECONDS - 1)
    assert both.queue.in_flight() == 1
    begin_anew(both)
    both.work(held=caught.value.held)
    assert trained(both) == ["other-job", "tiny-job"]
    assert both.queue.depth() == 0
    assert caught.value.held.receive_count == 1


def test_a_lease_that_is_lost_on_the_way_is_somebody_elses(both: World) -> None:
    with pytest.raises(OtherCode) as caught:
        both.work()
    both.clock.advance(LEASE_SECONDS + 1)
    (again,) = both.queue.receive(most=1, wait_seconds=0)
    begin_anew(both)
    both.work(held=caught.value.held)
    assert trained(both) == ["tiny-job"]
    assert again.receive_count == 2


def test_a_worker_that_has_to_leave_gives_it_back_instead(both: World) -> None:
    receive = both.queue.receive

    def leave_after_the_second(**request: Any) -> Sequence[Message]:
        found = receive(**request)
        if both.queue.calls["receive"] == 2:
            both.stop.request()
        return found

    both.queue.receive = leave_after_the_second  # type: ignore[method-assign]  # a notice that comes with the message
    both.work()
    assert trained(both) == ["tiny-job"]
    assert both.queue.in_flight() == 0
    assert both.queue.depth() == 1


def test_a_message_whose_lease_is_gone_already_is_not_handed_on(both: World) -> None:
    receive = both.queue.receive

    def too_late(**request: Any) -> Sequence[Message]:
        found = receive(**request)
        if both.queue.calls["receive"] == 2:
            both.clock.advance(LEASE_SECONDS + 1)
        return found

    both.queue.receive = too_late  # type: ignore[method-assign]  # a pause of the machine
    with pytest.raises(OtherCode) as caught:
        both.work()
    assert caught.value.held.receive_count == 2


def test_jobs_of_the_same_code_share_a_process() -> None:
    world, other = World(), World(run=OTHER_RUN, name="other-job")
    for key, body in other.store.snapshot().items():
        world.store.put(key, body)
    world.send("train-000000")
    other.send("train-000000")
    world.queue.send(other.queue.bodies())
    world.work()
    assert trained(world) == ["other-job", "tiny-job"]
    other.close()
    world.close()


def test_a_message_survives_the_environment() -> None:
    seen: dict[str, Any] = {}

    class Replaced(BaseException):
        """Nothing of the old process runs after it."""

    def execute(path: str, arguments: list[str], environment: dict[str, str]) -> NoReturn:
        seen.update(path=path, arguments=arguments, environment=environment)
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        assert set(SIGNALS) <= blocked
        raise Replaced

    try:
        with pytest.raises(Replaced):
            renew(MESSAGE, ["-m", "worker_image"], execute)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    assert (
        seen["arguments"]
        == [sys.executable, "-m", "worker_image"]
        == [
            seen["path"],
            *seen["arguments"][1:],
        ]
    )
    assert held_in(seen["environment"][HELD]) == MESSAGE
    assert held_in(None) is None


@pytest.mark.parametrize("text", ["", "{}", "nothing"])
def test_what_is_no_message_is_a_wrong_setting(text: str) -> None:
    with pytest.raises(MissingSetting, match="SPOTGRAD_HELD_MESSAGE: holds no message"):
        held_in(text)


def test_the_next_process_is_started_like_this_one() -> None:
    words = arguments_of(until_idle_seconds=2.5, slow_seconds=0.0, leave_with_parent=True)
    assert words == [
        *("-m", "worker_image", "--slow", "0.0", "--until-idle", "2.5", "--leave-with-parent")
    ]
    assert arguments_of(until_idle_seconds=None, slow_seconds=1, leave_with_parent=False) == [
        *("-m", "worker_image", "--slow", "1")
    ]


def test_a_signal_that_comes_in_between_is_not_lost() -> None:
    """It waits, blocked, until the next process listens."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    stop = Stop()
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        assert not stop.requested
        stop.install()
        assert stop.wait(10)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        stop.close()
    assert threading.main_thread().is_alive()


# ------------------------------------------------------------------------------- real processes


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with served() as address:
        yield address


@pytest.fixture
def make_cloud(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[World, str], Cloud]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    return Cloud


def test_one_worker_serves_two_jobs_and_neither_sees_the_other(
    both: World, make_cloud: Callable[[World, str], Cloud]
) -> None:
    """The other job's module refuses to be imported where the first job has left its mark."""
    both.send("train-000001")  # and back again
    cloud = make_cloud(both, "two-jobs")
    with process(cloud, "--until-idle", "0") as worker:
        _, errors = worker.communicate(timeout=100)
    assert worker.returncode == 0, errors
    assert len(cloud.keys("results/tiny-job/")) == 2
    assert len(cloud.keys("results/other-job/")) == 1
    assert cloud.queue.depth() == 0
    assert "failed" not in errors
    assert errors.count("other code") >= 1, errors


def test_a_replaced_worker_still_leaves_with_its_parent(
    both: World, make_cloud: Callable[[World, str], Cloud]
) -> None:
    cloud = make_cloud(both, "two-jobs-and-a-parent")
    with process(cloud, "--leave-with-parent") as worker:
        read_until(worker, "uploaded job=tiny-job")
        read_until(worker, "uploaded job=other-job")
        assert worker.stdin is not None
        worker.stdin.close()
        assert worker.wait(timeout=60) == 0
