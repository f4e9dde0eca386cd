import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local.cloud import Cloud, create_cloud
from infra.local.emulator import Emulator
from infra.local.environment import local_clients
from infra.local.topology import LOCAL_PSEUDO, Topology, read_topology
from spotgrad.aws.clients import Clients


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with Emulator(tmp_path_factory.mktemp("emulator") / "emulator.log") as running:
        yield running


@pytest.fixture(scope="session")
def clients(emulator: Emulator) -> Clients:
    return local_clients(emulator.endpoint_url)


@pytest.fixture
def topology(request: pytest.FixtureRequest) -> Topology:
    """The real topology under names of this test's own."""
    stack = f"t{abs(hash(request.node.nodeid)) % 10**10}"
    return read_topology(pseudo={**LOCAL_PSEUDO, "AWS::StackName": stack})


@pytest.fixture
def cloud(topology: Topology, clients: Clients) -> Cloud:
    return create_cloud(topology, clients)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not Path(f"/proc/{pid}/stat").exists() or " Z " not in Path(
        f"/proc/{pid}/stat"
    ).read_text(encoding="utf-8")


def wait_for_file(path: Path, *, most_seconds: float = 30) -> str:
    """Return the file's text as soon as somebody has written it."""
    never = threading.Event()
    for _ in range(int(most_seconds * 100)):
        if path.exists() and (text := path.read_text(encoding="utf-8")):
            return text
        never.wait(0.01)
    raise TimeoutError(f"{path} was not written within {most_seconds} s")
