"""What tests/conftest.py and pytest's options promise to every test."""

import os
import socket

import pytest
from pytest_socket import SocketConnectBlockedError

from spotgrad.aws.clients import Clients
from tests.fakes.environment import DUMMY


def test_no_socket_leads_beyond_loopback() -> None:
    # pytest-socket warns before it raises, and warnings are errors here.
    blocked = (SocketConnectBlockedError, UserWarning)
    with socket.socket() as outward, pytest.raises(blocked, match=r"192\.0\.2\.1"):
        outward.connect(("192.0.2.1", 80))  # TEST-NET-1, RFC 5737: never anybody's


def test_moto_is_on_loopback(clients: Clients) -> None:
    assert clients.s3.meta.endpoint_url.startswith("http://127.0.0.1:")
    assert clients.s3.meta.endpoint_url == clients.sqs.meta.endpoint_url


def test_the_environment_holds_dummies_alone() -> None:
    ours = {
        name: value
        for name, value in os.environ.items()  # noqa: TID251 -- it is what is under test
        if name.startswith(("AWS_", "SPOTGRAD_"))
    }
    assert ours == {name: value for name, value in DUMMY.items() if name.startswith("AWS_")}
