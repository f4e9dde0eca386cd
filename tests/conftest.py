"""Every test starts from the same environment: no AWS account, no settings, loopback alone."""

import os

import pytest
from hypothesis import HealthCheck, settings

# Two slow, shared cores: a deadline would measure the machine, not the code.
settings.register_profile(
    "spotgrad", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("spotgrad")

DUMMY_ENVIRONMENT = {
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


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting and no credential of whoever runs the tests reaches the code, or its children."""
    for name in list(os.environ):  # noqa: TID251 -- this fixture is what keeps it clean
        if name.startswith(("AWS_", "SPOTGRAD_")):
            monkeypatch.delenv(name)
    for name, value in DUMMY_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
