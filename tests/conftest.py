"""What holds for every test: a clean environment, no deadline, and no socket but to loopback.

Sockets are pytest-socket's business (``--disable-socket --allow-hosts`` in pyproject.toml): with
both options a socket may be opened, but connects to the hosts named there alone.
"""

import pytest
from hypothesis import HealthCheck, settings

from tests.fakes.environment import clean

# Slow, shared cores: a deadline would measure the machine, not the code. The gate draws the same
# examples for the same source, so that what it covers is no matter of luck; ``make explore`` draws
# others each time.
settings.register_profile(
    "spotgrad",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("explore", settings.get_profile("spotgrad"), derandomize=False)
settings.load_profile("spotgrad")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting and no credential of whoever runs the tests reaches the code or its children."""
    clean(monkeypatch)
