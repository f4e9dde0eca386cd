"""Every implementation of a port, one parameter each; moto is started once for all of them."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spotgrad.aws.clients import Clients
from spotgrad.aws.s3 import S3Store
from spotgrad.aws.sqs import SqsQueue
from spotgrad.directory.store import DirectoryStore
from spotgrad.ports import ObjectSweeper
from tests.contract.fleets import FakeYard, LocalYard, MotoYard, Yard
from tests.contract.moto_server import clients_of, served
from tests.contract.queues import GaugedQueue
from tests.fakes.queue import FakeQueue
from tests.fakes.store import FakeStore

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def moto_endpoint() -> Iterator[str]:
    with served() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def clients(moto_endpoint: str) -> Iterator[Clients]:
    with clients_of(moto_endpoint) as made:
        yield made


@pytest.fixture(params=["fake", "directory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectSweeper:
    if request.param == "fake":
        return FakeStore()
    if request.param == "directory":
        return DirectoryStore(tmp_path / "bucket")
    made: Clients = request.getfixturevalue("clients")
    bucket = f"contract-{next(NUMBERS)}"
    made.s3.create_bucket(Bucket=bucket)
    return S3Store(made.s3, bucket)


@pytest.fixture(params=["fake", "sqs"])
def make_queue(request: pytest.FixtureRequest) -> Callable[[], GaugedQueue]:
    """Returns a maker of queues whose leases last 30 s."""
    if request.param == "fake":
        return FakeQueue
    made: Clients = request.getfixturevalue("clients")

    def make() -> SqsQueue:
        name = f"contract-{next(NUMBERS)}"
        return SqsQueue(made.sqs, made.sqs.create_queue(QueueName=name)["QueueUrl"])

    return make


@pytest.fixture
def queue(make_queue: Callable[[], GaugedQueue]) -> GaugedQueue:
    return make_queue()


@pytest.fixture(params=["fake", "batch", "local"])
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Yard]:
    if request.param == "fake":
        yield FakeYard()
    elif request.param == "local":
        local = LocalYard(tmp_path / "workers.log")
        yield local
        local.vanish()
    else:
        made: Clients = request.getfixturevalue("clients")
        yield MotoYard(made, request.getfixturevalue("moto_endpoint"))
