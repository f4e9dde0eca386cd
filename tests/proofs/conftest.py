"""The bench of the races, on fakes; and a bucket on moto, for what must hold on S3 as well."""

from collections.abc import Iterator

import pytest

from spotgrad.aws.s3 import S3Store
from tests.builders import Bench
from tests.contract.moto_server import clients_of, served


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def s3_store() -> Iterator[S3Store]:
    with served() as endpoint, clients_of(endpoint) as clients:
        clients.s3.create_bucket(Bucket="proofs")
        yield S3Store(clients.s3, "proofs")
