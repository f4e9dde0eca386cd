"""One ministack for all that runs on it, and the ports on it.

No file here is named as pytest collects by itself: ``make ministack`` names them. Where
ministack is laxer than AWS a test says so by a strict xfail; it meets all that the suites demand.
"""

import itertools
from collections.abc import Callable, Iterator

import pytest

from infra.local.child import is_left
from infra.local.emulator import Emulator
from spotgrad.aws.clients import Clients
from spotgrad.aws.s3 import S3Store
from spotgrad.aws.sqs import SqsQueue
from tests.builders import Bench
from tests.contract.moto_server import clients_of
from tests.ministack.bench import bench_on
from tests.ministack.emulator import INSTALLED, MINISTACK

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def installed() -> None:
    if not INSTALLED.exists():
        pytest.fail(f"{INSTALLED.parent} is not there: run `make ministack`")


@pytest.fixture(scope="session")
def endpoint(installed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    del installed
    with Emulator(tmp_path_factory.mktemp("ministack") / "ministack.log", MINISTACK) as running:
        yield running.endpoint_url
    assert not is_left(running.pid)


@pytest.fixture(scope="session")
def clients(endpoint: str) -> Iterator[Clients]:
    with clients_of(endpoint) as made:
        yield made


@pytest.fixture
def store(clients: Clients) -> S3Store:
    bucket = f"bucket-{next(NUMBERS)}"
    clients.s3.create_bucket(Bucket=bucket)
    return S3Store(clients.s3, bucket)


@pytest.fixture
def bench(store: S3Store) -> Bench:
    return bench_on(store)


@pytest.fixture
def make_queue(clients: Clients) -> Callable[[], SqsQueue]:
    """Returns a maker of queues whose leases last 30 s."""

    def make() -> SqsQueue:
        name = f"queue-{next(NUMBERS)}"
        return SqsQueue(clients.sqs, clients.sqs.create_queue(QueueName=name)["QueueUrl"])

    return make


@pytest.fixture
def queue(make_queue: Callable[[], SqsQueue]) -> SqsQueue:
    return make_queue()
