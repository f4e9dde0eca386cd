"""The whole deployment, started for real: emulator, resources, functions, pump."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.local import stack as stack_module
from infra.local.child import is_left
from infra.local.cloud import WiringFailed
from infra.local.delivery import DuplicateEvery
from infra.local.stack import SUBTASKS, Stack, StackOptions
from spotgrad.errors import NotFound
from spotgrad.protocol.keys import HeadKey, JobFileKey, RefusedKey
from spotgrad.protocol.refusal import Refusal
from tests.builders import JOB, Bench, job_file
from tests.infra.conftest import is_alive

MOST_SECONDS = 90


def wait_until(condition: Callable[[], bool]) -> None:
    never = threading.Event()
    for _ in range(MOST_SECONDS * 20):
        if condition():
            return
        never.wait(0.05)
    raise TimeoutError(f"not within {MOST_SECONDS} s")


def has(stack: Stack, key: str) -> bool:
    try:
        stack.store.get(key)
    except NotFound:
        return False
    return True


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Entered, not started."""
    with Stack(StackOptions(tmp_path_factory.mktemp("built"))) as stack:
        yield stack


def test_before_it_is_started_the_bucket_announces_nothing(built: Stack) -> None:
    built.store.put(JobFileKey(JOB).render(), job_file())
    assert set(built.depths()) == set(built.topology.queues)
    assert not any(built.depths().values())
    assert not built.busy()
    assert built.pids == [built.emulator.pid]
    built.stop()  # with nothing begun there is nothing to stop
    assert built.emulator.alive


def test_events_call_the_functions_until_it_stops(tmp_path: Path) -> None:
    bench = Bench()
    bench.upload()
    with Stack(StackOptions(tmp_path, DuplicateEvery(1))) as stack:
        stack.start()
        stack.store.put(JobFileKey("other").render(), job_file())
        for key, body in bench.store.snapshot().items():
            stack.store.put(key, body)
        wait_until(lambda: has(stack, HeadKey(JOB).render()))
        wait_until(lambda: has(stack, RefusedKey("other").render()))
        refusal = stack.store.get(RefusedKey("other").render()).body
        assert "make them equal" in Refusal.from_json(refusal).reason
        wait_until(lambda: stack.subtasks.depth() == 1)  # twice planned, once sent
        stack.pump.check()
        pids = stack.pids
        assert len(pids) >= 2  # the emulator and the planner at least
        stack.stop()
        assert [is_alive(pid) for pid in pids] == [True] + [False] * (len(pids) - 1)

        stack.store.put(JobFileKey("late").render(), job_file(name="late"))
        assert stack.busy()  # nobody reads the event any more
    assert not any(is_left(pid) for pid in pids)
    assert (tmp_path / "PlanFunction.log").exists()


def test_dead_letters_keep_nobody_waiting(built: Stack) -> None:
    redrive = built.topology.queues[SUBTASKS].redrive
    assert redrive is not None
    dead, alive = (built.cloud.queue_urls[name] for name in (redrive.target, SUBTASKS))
    built.clients.sqs.send_message(QueueUrl=dead, MessageBody="dead")
    assert built.depths()[redrive.target] == 1
    assert not built.busy()
    built.subtasks.send(["alive"])
    assert built.busy()
    for url in (dead, alive):
        built.clients.sqs.purge_queue(QueueUrl=url)


def test_a_worker_is_told_where_its_work_is_and_nothing_of_ours(
    built: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("SPOTGRAD_BUCKET", "production")
    environment = built.worker_environment("local-7")
    assert "AWS_PROFILE" not in environment
    assert environment["AWS_ENDPOINT_URL"] == built.emulator.endpoint_url
    assert {name: text for name, text in environment.items() if name.startswith("SPOTGRAD_")} == {
        "SPOTGRAD_BUCKET": built.topology.bucket.name,
        "SPOTGRAD_SUBTASKS_QUEUE_URL": built.cloud.queue_urls[SUBTASKS],
        "SPOTGRAD_LEASE_SECONDS": "5",
        "SPOTGRAD_THREADS": "1",
        "SPOTGRAD_WORKER_NAME": "local-7",
    }
    visibility = built.clients.sqs.get_queue_attributes(
        QueueUrl=built.cloud.queue_urls[SUBTASKS], AttributeNames=["VisibilityTimeout"]
    )
    assert visibility["Attributes"]["VisibilityTimeout"] == str(built.lease_seconds) == "5"


class Mine(Exception):
    pass


def test_an_error_inside_ends_everything(tmp_path: Path) -> None:
    stack = Stack(StackOptions(tmp_path))
    with contextlib.suppress(Mine), stack:
        stack.start()
        raise Mine
    assert not stack.emulator.alive


def test_an_error_while_it_is_built_ends_the_emulator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise WiringFailed("no queue")

    monkeypatch.setattr(stack_module, "create_cloud", fail)
    stack = Stack(StackOptions(tmp_path))
    with pytest.raises(WiringFailed), stack:
        pass
    assert not stack.emulator.alive
