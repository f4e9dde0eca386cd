"""The environment of every test: no AWS account, no settings, no proxy in front of loopback."""

import os

import pytest

DUMMY = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
}


def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what belongs to whoever runs the tests, and put the dummies in its place."""
    for name in list(os.environ):  # noqa: TID251 -- this function is what keeps it clean
        if name.startswith(("AWS_", "SPOTGRAD_")):
            monkeypatch.delenv(name)
    for name, value in DUMMY.items():
        monkeypatch.setenv(name, value)
