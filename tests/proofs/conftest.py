"""A bucket on moto, for the proofs that have to hold on the S3 adapter as well."""

from collections.abc import Iterator

import pytest

from spotgrad.aws.clients import make_clients
from spotgrad.aws.s3 import S3Store
from tests.contract.moto_server import served


@pytest.fixture
def s3_store(monkeypatch: pytest.MonkeyPatch, clean_environment: None) -> Iterator[S3Store]:
    del clean_environment  # before, not instead of, the endpoint
    with served() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        clients = make_clients()
        clients.s3.create_bucket(Bucket="proofs")
        yield S3Store(clients.s3, "proofs")
        clients.s3.close()
        clients.sqs.close()
