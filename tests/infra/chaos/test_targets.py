"""What the injector aims at: a worker by its name, and a function's process by its name."""

import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from infra.local.child import Child
from infra.local.environment import child_environment
from infra.local.fleet import Fleet
from infra.local.function import Deployment, EnvironmentDied, FunctionPool
from infra.local.topology import (
    CHAOS_PARAMETERS,
    LOCAL_PARAMETERS,
    FunctionResource,
    read_topology,
)
from tests.infra.conftest import is_alive, wait_for_file


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FunctionPool]:
    function = FunctionResource(
        "EchoFunction", "tests.infra.handlers.hang_if_asked", 30, 512, {}, (), None
    )
    pool = FunctionPool(Deployment(function, child_environment(), tmp_path / "log"), concurrency=2)
    yield pool
    pool.close()


def test_a_function_is_crashed_in_the_middle_and_replaced(
    pool: FunctionPool, tmp_path: Path
) -> None:
    began, failures = tmp_path / "began", list[EnvironmentDied]()

    def invoke() -> None:
        try:
            pool.invoke({"began": str(began)})
        except EnvironmentDied as error:
            failures.append(error)

    thread = Thread(target=invoke)
    thread.start()
    pid = int(wait_for_file(began))
    assert not pool.crash("EchoFunction-0")  # the last one in is the first one used: number 1
    assert not pool.crash("OtherFunction-1")
    assert is_alive(pid)
    assert pool.crash("EchoFunction-1")
    thread.join(10)
    assert "status -9" in str(failures[0])
    assert not is_alive(pid)
    assert not pool.crash("EchoFunction-1")  # it is gone already
    assert pool.invoke(None)["pid"] != pid


def test_a_child_that_ended_gets_no_signal(tmp_path: Path) -> None:
    child = Child("platform", environment=child_environment(), log=tmp_path / "log")
    child.end(grace_seconds=30)
    assert not child.signal(signal.SIGTERM)
    child.stdout.close()


def test_a_worker_is_signalled_by_name_and_replaced(tmp_path: Path) -> None:
    fleet = Fleet(1, lambda _: child_environment(), tmp_path / "log", lambda _: ("--slow", "1"))
    fleet.start(1)
    fleet.tend()
    (pid,) = fleet.pids.values()
    assert fleet.signal("local-1", 0)
    assert not fleet.signal("local-2", signal.SIGKILL)
    assert fleet.signal("local-1", signal.SIGKILL)
    fleet.stop()
    assert not is_alive(pid)
    assert not fleet.signal("local-1", signal.SIGKILL)


def test_functions_have_more_time_under_chaos_and_still_less_than_their_messages() -> None:
    assert set(CHAOS_PARAMETERS) == set(LOCAL_PARAMETERS)
    topology = read_topology(parameters=CHAOS_PARAMETERS)
    for function in topology.functions.values():
        for source in function.event_sources:
            assert function.timeout_seconds < topology.queues[source.queue].visibility_seconds
