"""moto by loopback, and a sam that does what sam would do to a stack."""

from collections.abc import Iterator

import pytest

from spotgrad.aws.clients import Clients
from tests.contract.deployment import Deployer
from tests.contract.moto_server import clients_of, served


@pytest.fixture(scope="module")
def moto_endpoint() -> Iterator[str]:
    with served() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def clients(moto_endpoint: str) -> Iterator[Clients]:
    with clients_of(moto_endpoint) as made:
        yield made


@pytest.fixture(scope="module")
def deployer(moto_endpoint: str) -> Deployer:
    return Deployer(moto_endpoint)


@pytest.fixture(autouse=True)
def _endpoint(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch, clean_environment: None) -> None:
    del clean_environment  # it comes first
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_endpoint)
