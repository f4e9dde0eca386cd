"""Real worker processes against a real HTTP server: signals, exit codes, nothing left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from spotgrad.aws.clients import make_clients
from spotgrad.aws.s3 import S3Store
from spotgrad.aws.sqs import SqsQueue
from spotgrad.protocol.attempt import Attempt
from spotgrad.protocol.tensors import decode
from tests.contract.moto_server import served
from tests.worker_image.metadata_server import ACTION, Metadata, serving
from tests.worker_image.world import TASK, World

PACED = """
import os, sys, threading

class Paced(Tiny):
    def training_step(self, batch, batch_idx):
        print("batch", batch_idx, file=sys.stderr, flush=True)
        threading.Event().wait(float(os.environ["PACE"]))
        return super().training_step(batch, batch_idx)
"""
START = [sys.executable, "-m", "worker_image"]


class Cloud:
    """The tiny job in a bucket and a queue that other processes can reach."""

    def __init__(self, world: World, name: str) -> None:
        clients = make_clients()
        clients.s3.create_bucket(Bucket=name)
        url = clients.sqs.create_queue(QueueName=name)["QueueUrl"]
        self.store = S3Store(clients.s3, name)
        self.queue = SqsQueue(clients.sqs, url)
        self.settings = {"SPOTGRAD_BUCKET": name, "SPOTGRAD_SUBTASKS_QUEUE_URL": url}
        for key, body in world.store.snapshot().items():
            self.store.put(key, body)
        self.queue.send(world.queue.bodies())

    def keys(self, prefix: str) -> list[str]:
        return [each.key for each in self.store.list(prefix)]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with served() as address:
        yield address


@pytest.fixture
def make_cloud(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[World, str], Cloud]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    return Cloud


@contextmanager
def process(cloud: Cloud, *arguments: str, **settings: str) -> Iterator["subprocess.Popen[str]"]:
    inherited = os.environ  # noqa: TID251 - a child needs what pytest has
    environment = {**inherited, **cloud.settings, **settings}
    pipe = subprocess.PIPE
    started = subprocess.Popen(
        [*START, *arguments], stdin=pipe, stderr=pipe, text=True, env=environment
    )
    with started:
        try:
            yield started
        finally:
            started.kill()


def read_until(worker: "subprocess.Popen[str]", text: str) -> None:
    assert worker.stderr is not None
    seen: list[str] = []
    for line in worker.stderr:
        seen.append(line)
        if text in line:
            return
    raise AssertionError("".join(seen))


def test_a_worker_works_off_the_queue_and_leaves(
    world: World, make_cloud: Callable[[World, str], Cloud]
) -> None:
    world.send("train-000000")
    world.send("train-000001")
    cloud = make_cloud(world, "drained")
    with process(cloud, "--until-idle", "0") as worker:
        _, errors = worker.communicate(timeout=100)
    assert worker.returncode == 0, errors
    assert len(cloud.keys("results/tiny-job/000001/train-")) == 2
    assert cloud.queue.depth() == 0


def test_a_signal_gives_the_message_back_at_once(
    world: World, make_cloud: Callable[[World, str], Cloud]
) -> None:
    world.send("train-000000")
    cloud = make_cloud(world, "stopped")
    with process(cloud, "--slow", "3600") as worker:
        read_until(worker, "-> started")
        worker.send_signal(signal.SIGTERM)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=60) == 0
    (again,) = cloud.queue.receive(most=1, wait_seconds=1)
    assert again.receive_count == 2
    assert cloud.keys("results/") == []
    (key,) = cloud.keys("attempts/")
    assert Attempt.from_json(cloud.store.get(key).body).outcome == "returned"


def test_a_worker_leaves_with_its_parent(
    world: World, make_cloud: Callable[[World, str], Cloud]
) -> None:
    world.send("train-000000")
    cloud = make_cloud(world, "orphan")
    with process(cloud, "--slow", "3600", "--leave-with-parent") as worker:
        read_until(worker, "-> started")
        assert worker.stdin is not None
        worker.stdin.close()
        assert worker.wait(timeout=60) == 0
    assert len(cloud.queue.receive(most=1, wait_seconds=1)) == 1


@pytest.fixture
def long_world() -> Iterator[World]:
    """One subtask of 200 batches, whose worker says what it does."""
    sgd = {"name": "sgd", "lr": 0.1, "momentum": 0.9}
    made = World(
        task_text=TASK + PACED,
        task="tiny_task:Paced",
        local={"passes": 100, "batch_size": 2, "optimizer": sgd},
    )
    made.send("train-000000")
    yield made
    made.close()


@pytest.fixture
def metadata() -> Iterator[Metadata]:
    with serving() as made:
        yield made


def sigterm(worker: "subprocess.Popen[str]", _: Metadata) -> None:
    worker.send_signal(signal.SIGTERM)
    worker.send_signal(signal.SIGTERM)


def spot_notice(_: "subprocess.Popen[str]", metadata: Metadata) -> None:
    metadata.answers[ACTION] = '{"action": "terminate", "time": "2020-01-01T00:00:00Z"}'


@pytest.mark.timeout(300)  # two starts of torch, perhaps on a busy machine
@pytest.mark.parametrize("give_notice", [sigterm, spot_notice])
def test_on_notice_the_work_moves_to_the_next_worker(
    long_world: World,
    metadata: Metadata,
    make_cloud: Callable[[World, str], Cloud],
    monkeypatch: pytest.MonkeyPatch,
    give_notice: Callable[["subprocess.Popen[str]", Metadata], None],
) -> None:
    cloud = make_cloud(long_world, give_notice.__name__.replace("_", "-"))
    settings = {
        "SPOTGRAD_NOTICE_SECONDS": "0",
        "SPOTGRAD_NOTICE_POLL_SECONDS": "0.1",
        "SPOTGRAD_METADATA_ENDPOINT": metadata.url,
        "SPOTGRAD_FREE_DISK_BYTES": "0",
    }
    with process(cloud, PACE="0.05", **settings) as worker:
        read_until(worker, "batch 1")
        give_notice(worker, metadata)
        read_until(worker, "<- returned")
        assert worker.wait(timeout=60) == 0
    assert len(cloud.keys("partial/tiny-job/000001/train-000000/")) == 1
    assert cloud.keys("results/") == []
    metadata.answers.clear()
    with process(cloud, "--until-idle", "0", PACE="0", **settings) as worker:
        read_until(worker, "resumed at passes=")
        _, errors = worker.communicate(timeout=100)
    assert worker.returncode == 0, errors
    (key,) = cloud.keys("results/")
    ours = decode(cloud.store.get(key).body)
    monkeypatch.setenv("PACE", "0")
    long_world.work()  # as if nothing had happened
    ((_, whole),) = long_world.results()
    for name, array in whole.tensors.items():
        assert ours.tensors[name].tobytes() == array.tobytes()
