"""The races on ministack, whose conditional writes are atomic: no lock of ours stands before them.

First bare writes without any retry, then the proofs' aggregators, which rest on nothing else.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import boto3.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from infra.local.environment import ACCESS_KEY, REGION, SECRET_KEY
from tests.builders import Bench
from tests.proofs import test_concurrency as proofs

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

THREADS = 20
LOST = "PreconditionFailed"
SIZES = [pytest.param(1_000, 40, id="a head"), pytest.param(5_000_000, 4, id="a model")]
"""Bytes and rounds; moto without the local run's lock lets two win where bodies are large."""

Put = Callable[[bytes], object]


@pytest.fixture
def client(endpoint: str) -> "S3Client":
    """It asks once: a PUT that is repeated may lose against itself."""
    session = boto3.session.Session(ACCESS_KEY, SECRET_KEY, region_name=REGION)
    config = Config(retries={"total_max_attempts": 1}, max_pool_connections=THREADS)
    return session.client("s3", endpoint_url=endpoint, config=config)


@pytest.fixture
def bucket(client: "S3Client", request: pytest.FixtureRequest) -> str:
    name = f"race-{abs(hash(request.node.nodeid)) % 10**10}"
    client.create_bucket(Bucket=name)
    return name


def race(put: Put, size_bytes: int, turn: int) -> bytes:
    """Let every thread put a body of its own at once; return that of the only one that won.

    No body is ever put twice: an entity tag is a digest, so equal bodies satisfy each other's
    condition, on AWS as well. That is why no two heads of a job are equal.
    """
    bodies = [bytes([turn, number]) * (size_bytes // 2) for number in range(THREADS)]
    barrier = threading.Barrier(THREADS)

    def run(body: bytes) -> str:
        barrier.wait()
        try:
            put(body)
        except ClientError as error:
            return error.response["Error"]["Code"]
        return "won"

    with ThreadPoolExecutor(THREADS) as pool:
        outcomes = list(pool.map(run, bodies))
    assert sorted(outcomes) == [LOST] * (THREADS - 1) + ["won"]
    return bodies[outcomes.index("won")]


@pytest.mark.parametrize(("size_bytes", "rounds"), SIZES)
def test_of_twenty_creators_exactly_one_wins(
    client: "S3Client", bucket: str, size_bytes: int, rounds: int
) -> None:
    for turn in range(rounds):
        key = f"head-{turn}"

        def create(body: bytes, key: str = key) -> object:
            return client.put_object(Bucket=bucket, Key=key, Body=body, IfNoneMatch="*")

        won = race(create, size_bytes, turn)
        assert client.get_object(Bucket=bucket, Key=key)["Body"].read() == won


@pytest.mark.parametrize(("size_bytes", "rounds"), SIZES)
def test_of_twenty_replacers_exactly_one_wins(
    client: "S3Client", bucket: str, size_bytes: int, rounds: int
) -> None:
    tag = client.put_object(Bucket=bucket, Key="head", Body=b"the first")["ETag"]
    for turn in range(rounds):

        def replace(body: bytes, tag: str = tag) -> object:
            return client.put_object(Bucket=bucket, Key="head", Body=body, IfMatch=tag)

        won = race(replace, size_bytes, turn)
        found = client.get_object(Bucket=bucket, Key="head")
        assert found["Body"].read() == won
        tag = found["ETag"]


@pytest.mark.timeout(600)
def test_eight_aggregators_over_http_keep_one_history(bench: Bench) -> None:
    proofs.test_sixty_four_results_of_one_epoch(bench, seed=0)


@pytest.mark.timeout(600)
def test_eight_aggregators_and_workers_over_http_train_four_epochs(bench: Bench) -> None:
    proofs.test_four_epochs_of_sixteen_shards_with_workers_in_between(bench, issue="rolling")
