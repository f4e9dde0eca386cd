from pathlib import Path
from typing import Any

import pytest

from spotgrad.aws.clients import make_clients
from spotgrad.errors import Reject
from spotgrad.settings import MissingSetting


@pytest.mark.parametrize(
    ("region", "default_region", "wanted"),
    [
        ("eu-west-1", None, "eu-west-1"),
        (None, "eu-west-2", "eu-west-2"),
        ("eu-west-1", "eu-west-2", "eu-west-1"),
    ],
)
def test_the_region_is_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, region: str | None, default_region: str | None, wanted: str
) -> None:
    for name, value in (("AWS_REGION", region), ("AWS_DEFAULT_REGION", default_region)):
        monkeypatch.delenv(name)
        if value is not None:
            monkeypatch.setenv(name, value)
    clients = make_clients()
    assert clients.s3.meta.region_name == clients.sqs.meta.region_name == wanted
    assert clients.s3.meta.endpoint_url == f"https://s3.{wanted}.amazonaws.com"
    assert clients.sqs.meta.endpoint_url == f"https://sqs.{wanted}.amazonaws.com"


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:5000", "http://localhost:5000"])
def test_an_endpoint_of_ones_own_is_addressed_by_path(
    monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    clients = make_clients()
    assert clients.sqs.meta.endpoint_url == endpoint
    url = clients.s3.generate_presigned_url("get_object", Params={"Bucket": "b12", "Key": "k"})
    assert url.startswith(f"{endpoint}/b12/k?")


def test_aws_itself_is_addressed_by_host() -> None:
    url = make_clients().s3.generate_presigned_url(
        "get_object", Params={"Bucket": "b12", "Key": "k"}
    )
    assert url.startswith("https://b12.s3.amazonaws.com/k?")


def test_both_retry_each_request_by_itself_and_outwait_a_long_poll() -> None:
    clients = make_clients()
    for client in (clients.s3, clients.sqs):
        config: Any = client.meta.config  # its options are made at run time
        assert config.retries == {"mode": "standard", "total_max_attempts": 6}
        assert config.read_timeout > 20
        assert config.connect_timeout == 5


@pytest.mark.parametrize("endpoint", [None, "http://127.0.0.1:5000"])
def test_s3_hashes_no_body_unasked(monkeypatch: pytest.MonkeyPatch, endpoint: str | None) -> None:
    if endpoint is not None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    config: Any = make_clients().s3.meta.config  # its options are made at run time
    assert config.request_checksum_calculation == "when_required"
    assert config.response_checksum_validation == "when_required"
    assert config.s3["payload_signing_enabled"] is False


def test_every_call_makes_new_clients() -> None:
    first, second = make_clients(), make_clients()
    assert first.s3 is not second.s3
    assert first.sqs is not second.sqs


def test_a_profile_is_read_where_every_tool_reads_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text("[profile lab]\nregion = ap-south-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "lab")
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert make_clients().sqs.meta.region_name == "ap-south-1"


def test_no_region_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(MissingSetting, match="AWS_REGION"):
        make_clients()


def test_an_unknown_profile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(Reject, match="nobody"):
        make_clients()
