import os

import pytest

from infra.local.environment import child_environment, local_clients


def test_nothing_of_a_persons_aws_setup_reaches_a_child() -> None:
    person = {
        "PATH": "/bin",
        "AWS_PROFILE": "production",
        "AWS_SESSION_TOKEN": "t",
        "AWS_ENDPOINT_URL_S3": "https://elsewhere",
        "SPOTGRAD_BUCKET": "production-bucket",
        "MOTO_PORT": "1",
    }
    environment = child_environment("http://127.0.0.1:5", base=person)
    assert environment == {
        "PATH": "/bin",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:5",
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "POWERTOOLS_TRACE_DISABLED": "true",
    }


def test_a_proxy_stays_but_not_for_loopback() -> None:
    person = {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": "intra.example"}
    environment = child_environment(base=person, extra={"SPOTGRAD_BUCKET": "b"})
    assert environment["HTTPS_PROXY"] == "http://proxy:1"
    assert environment["NO_PROXY"] == "intra.example,127.0.0.1,localhost"
    assert environment["SPOTGRAD_BUCKET"] == "b"
    assert "AWS_ENDPOINT_URL" not in environment


def test_the_parents_clients_ignore_profile_proxy_and_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {
        "AWS_PROFILE": "does-not-exist",
        "AWS_ENDPOINT_URL": "https://elsewhere.example",
        "AWS_USE_FIPS_ENDPOINT": "true",
        "AWS_REGION": "eu-west-3",
        "HTTP_PROXY": "http://127.0.0.1:9",
    }.items():
        monkeypatch.setenv(name, value)
    clients = local_clients("http://127.0.0.1:5")
    for client in (clients.s3, clients.sqs):
        assert client.meta.endpoint_url == "http://127.0.0.1:5"
        assert client.meta.region_name == "us-east-1"
        assert vars(client.meta.config)["_user_provided_options"]["proxies"] == {}
