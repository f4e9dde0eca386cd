"""Everything together, with the SDK that workers and functions use, before a real emulator."""

import signal
from collections.abc import Callable, Iterator

import boto3.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

from infra.local.chaos.injector import NOTICE_SECONDS, Injector
from infra.local.chaos.spec import ChaosSpec
from infra.local.cloud import Cloud, queue_depth
from infra.local.emulator import Emulator
from infra.local.environment import ACCESS_KEY, REGION, SECRET_KEY
from spotgrad.aws.clients import Clients
from spotgrad.system import SystemClock
from worker_image.machine import InstanceMetadata


@pytest.fixture
def injectors() -> Iterator[list[Injector]]:
    made: list[Injector] = []
    yield made
    for one in made:
        one.close()


@pytest.fixture
def inject(emulator: Emulator, injectors: list[Injector]) -> "Inject":
    return Inject(emulator, injectors)


class Inject:
    def __init__(self, emulator: Emulator, made: list[Injector]) -> None:
        self._emulator = emulator
        self._made = made

    def __call__(self, spec: ChaosSpec) -> Injector:
        self._made.append(Injector(spec, self._emulator.endpoint_url))
        return self._made[-1]


def clients_of(url: str, caller: str) -> Clients:
    """Return clients that try once."""
    session = boto3.session.Session(ACCESS_KEY, SECRET_KEY, region_name=REGION)
    config = Config(
        proxies={},
        retries={"total_max_attempts": 1},
        user_agent_appid=caller,  # type: ignore[call-arg]  # newer than the stubs
        s3={"addressing_style": "path"},
    )
    return Clients(
        s3=session.client("s3", endpoint_url=url, config=config),
        sqs=session.client("sqs", endpoint_url=url, config=config),
    )


def test_without_faults_everything_works(inject: Inject, cloud: Cloud) -> None:
    clients = clients_of(inject(ChaosSpec()).url, "local-1")
    clients.s3.put_object(Bucket=cloud.bucket, Key="a b/ü", Body=b"x" * 300_000)
    answer = clients.s3.get_object(Bucket=cloud.bucket, Key="a b/ü")
    assert answer["Body"].read() == b"x" * 300_000
    listing = clients.s3.list_objects_v2(Bucket=cloud.bucket, Prefix="a b/")
    assert [row["Key"] for row in listing["Contents"]] == ["a b/ü"]
    clients.s3.head_object(Bucket=cloud.bucket, Key="a b/ü")
    clients.s3.delete_object(Bucket=cloud.bucket, Key="a b/ü")
    url = cloud.queue_urls["SubtasksQueue"]
    clients.sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "1", "MessageBody": "m"}])
    (found,) = clients.sqs.receive_message(QueueUrl=url)["Messages"]
    assert found["Body"] == "m"
    clients.sqs.delete_message(QueueUrl=url, ReceiptHandle=found["ReceiptHandle"])
    assert "Messages" not in clients.sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1)


def test_the_sdk_knows_that_it_is_throttled(inject: Inject, cloud: Cloud) -> None:
    injector = inject(ChaosSpec(throttle=1.0))
    clients = clients_of(injector.url, "local-1")
    with pytest.raises(ClientError, match="SlowDown"):
        clients.s3.get_object(Bucket=cloud.bucket, Key="k")
    with pytest.raises(ClientError, match="503"):
        clients.s3.head_object(Bucket=cloud.bucket, Key="k")
    with pytest.raises(ClientError, match="RequestThrottled"):
        clients.sqs.receive_message(QueueUrl=cloud.queue_urls["SubtasksQueue"])
    assert injector.counts == {"throttle": 3}
    injector.calm()
    clients.sqs.receive_message(QueueUrl=cloud.queue_urls["SubtasksQueue"])
    with pytest.raises(ClientError, match="NoSuchKey"):
        clients.s3.get_object(Bucket=cloud.bucket, Key="k")
    assert injector.counts == {"throttle": 3}


class Worker:
    """Begins an attempt and delivers it at once; remembers the signals it was sent."""

    def __init__(self, injector: Injector, bucket: str) -> None:
        self.signals: list[tuple[str, int]] = []
        injector.arm_workers(self._signal)
        self._s3 = clients_of(injector.url, "local-7").s3
        self._bucket = bucket

    def _signal(self, name: str, number: int) -> bool:
        self.signals.append((name, number))
        return True

    def work(self, subtask: str) -> None:
        record = f"attempts/j/000001/{subtask}/aaaaaaaaaaaaaaaa.json"
        self._s3.put_object(Bucket=self._bucket, Key=record, Body=b'{"outcome": null}')
        result = f"results/j/000001/{subtask}/aaaaaaaaaaaaaaaa.safetensors"
        self._s3.put_object(Bucket=self._bucket, Key=result, Body=b"r")


def test_a_worker_is_killed_by_name(inject: Inject, cloud: Cloud) -> None:
    injector = inject(ChaosSpec(kill=1.0))
    worker = Worker(injector, cloud.bucket)
    with pytest.raises(ConnectionClosedError):
        worker.work("train-000000")
    assert worker.signals == [("local-7", signal.SIGKILL)]
    assert injector.counts == {"kill": 1}


def test_a_machine_goes_after_a_notice_by_signal_or_by_metadata(
    inject: Inject, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers: list[tuple[float, Callable[[], object]]] = []
    monkeypatch.setattr(
        "infra.local.chaos.injector.start_timer", lambda *timer: timers.append(timer)
    )
    for seed in range(8):
        injector = inject(ChaosSpec(notice=1.0, seed=seed))
        worker = Worker(injector, cloud.bucket)
        worker.work("train-000000")
        ((name, number),) = worker.signals
        endpoint = injector.worker_environment(name)["SPOTGRAD_METADATA_ENDPOINT"]
        notice = InstanceMetadata(endpoint, SystemClock(), timeout_seconds=20).ask()
        assert (number, notice is None) in [(signal.SIGTERM, True), (0, False)]
        assert injector.counts == {"notice": 1}
        seconds, act = timers.pop()
        assert (seconds, act()) == (NOTICE_SECONDS, True)
        assert worker.signals[1:] == [("local-7", signal.SIGKILL)]


def test_a_function_is_crashed_by_name(inject: Inject, cloud: Cloud) -> None:
    injector = inject(ChaosSpec(aggregator_crash=1.0))
    crashed: list[str] = []
    injector.arm_functions(lambda name: not crashed.append(name))  # type: ignore[func-returns-value]  # always true
    s3 = clients_of(injector.url, "AggregateFunction-1").s3
    with pytest.raises(ConnectionClosedError):
        s3.put_object(Bucket=cloud.bucket, Key="state/j/head.json", Body=b"{}")
    assert crashed == ["AggregateFunction-1"]
    assert injector.counts == {"aggregator-crash": 1}


def test_what_is_sent_comes_twice(inject: Inject, cloud: Cloud, clients: Clients) -> None:
    injector = inject(ChaosSpec(duplicate=1.0))
    url = cloud.queue_urls["SubtasksQueue"]
    clients_of(injector.url, "PlanFunction-0").sqs.send_message_batch(
        QueueUrl=url, Entries=[{"Id": name, "MessageBody": name} for name in "abc"]
    )
    assert queue_depth(url, clients) == 6
    assert injector.counts == {"duplicate": 3}
