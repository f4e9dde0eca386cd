from collections.abc import Iterator
from datetime import timedelta

import pytest

from infra.local.chaos.machines import Machines
from tests.fakes.clock import FakeClock
from worker_image.machine import InstanceMetadata


@pytest.fixture
def machines() -> Iterator[Machines]:
    machines = Machines()
    yield machines
    machines.close()


def test_a_worker_reads_when_its_own_machine_goes(machines: Machines) -> None:
    clock = FakeClock()
    first, second = (
        InstanceMetadata(machines.endpoint(name), clock, timeout_seconds=20)
        for name in ("local-1", "local-2")
    )
    assert first.ask() is None
    machines.announce("local-1", clock.now() + timedelta(seconds=5))
    notice = first.ask()
    assert notice is not None
    assert (notice.seconds, notice.urgent) == (5.0, True)
    assert second.ask() is None


def test_nothing_else_is_known(machines: Machines) -> None:
    metadata = InstanceMetadata(machines.endpoint("x/other"), FakeClock(), timeout_seconds=20)
    assert metadata.ask() is None
