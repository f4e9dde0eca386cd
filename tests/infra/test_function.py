import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from infra.local.environment import child_environment
from infra.local.function import (
    Deployment,
    EnvironmentDied,
    FunctionPool,
    FunctionRaised,
    FunctionTimedOut,
    InvocationFailed,
)
from infra.local.topology import FunctionResource
from tests.infra.conftest import is_alive, wait_for_file

Deploy = Callable[..., FunctionPool]


@pytest.fixture
def deploy(tmp_path: Path) -> Iterator[Deploy]:
    pools: list[FunctionPool] = []

    def make(handler: str, *, timeout_seconds: int = 30, concurrency: int = 1) -> FunctionPool:
        function = FunctionResource(
            "EchoFunction", f"tests.infra.handlers.{handler}", timeout_seconds, 512, {}, (), None
        )
        environment = child_environment(extra={"SPOTGRAD_BUCKET": "the-bucket"})
        deployment = Deployment(function, environment, tmp_path / "logs" / "echo.log")
        pools.append(FunctionPool(deployment, concurrency=concurrency))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def test_a_handler_gets_its_event_context_and_environment(deploy: Deploy, tmp_path: Path) -> None:
    pool = deploy("echo", concurrency=2)
    first = pool.invoke({"é": [1, None, "x" * 200_000]})
    second = pool.invoke(None)
    assert first["event"] == {"é": [1, None, "x" * 200_000]}
    assert (first["calls"], second["calls"]) == (1, 2)  # the warm process is used again
    assert first["pid"] == second["pid"] != os.getpid()
    assert first["bucket"] == "the-bucket"
    assert (first["function"], first["memory"]) == ("EchoFunction", "512")
    assert first["arn"].endswith(":function:EchoFunction")
    assert first["request_id"] != second["request_id"]
    assert 25_000 < first["remaining_ms"] <= 30_000
    log = (tmp_path / "logs" / "echo.log").read_text(encoding="utf-8")
    assert log.count("a metric on standard output") == log.count("a log line") == 2


def test_what_a_handler_raises_is_told_in_one_line_and_it_stays_warm(
    deploy: Deploy, tmp_path: Path
) -> None:
    pool = deploy("fail")
    for event in (1, 2):
        with pytest.raises(FunctionRaised, match=f"^ValueError: cannot do {event} on two lines$"):
            pool.invoke(event)
    log = (tmp_path / "logs" / "echo.log").read_text(encoding="utf-8")
    assert log.count("ValueError: cannot do 1") == 1  # the trace is in the log


def test_an_answer_that_json_cannot_hold_is_an_error(deploy: Deploy) -> None:
    with pytest.raises(FunctionRaised, match=r"TypeError: .*set"):
        deploy("unserialisable").invoke({})


def test_a_handler_that_cannot_be_imported(deploy: Deploy) -> None:
    pool = deploy("no_such_handler")
    for _ in range(2):
        with pytest.raises(FunctionRaised, match=r"AttributeError: .*no_such_handler"):
            pool.invoke({})


def test_a_timeout_kills_the_process_and_the_next_one_is_fresh(
    deploy: Deploy, tmp_path: Path
) -> None:
    pool = deploy("hang_if_asked", timeout_seconds=1)
    warm = pool.invoke(None)["pid"]
    with pytest.raises(FunctionTimedOut, match="EchoFunction: no answer within 1 s"):
        pool.invoke({"began": str(tmp_path / "began")})
    assert (tmp_path / "began").read_text(encoding="utf-8") == str(warm)
    assert not is_alive(warm)
    assert pool.invoke(None)["pid"] != warm


def test_a_process_that_dies_is_told_apart(deploy: Deploy) -> None:
    with pytest.raises(EnvironmentDied, match="ended with status 7"):
        deploy("die").invoke({})


def test_close_kills_what_runs_and_nothing_starts_again(deploy: Deploy, tmp_path: Path) -> None:
    pool = deploy("hang", timeout_seconds=60)
    failures: list[InvocationFailed] = []

    def invoke() -> None:
        try:
            pool.invoke({"began": str(tmp_path / "began")})
        except InvocationFailed as error:
            failures.append(error)

    thread = Thread(target=invoke)
    thread.start()
    pid = int(wait_for_file(tmp_path / "began"))
    pool.close()
    thread.join(10)
    assert isinstance(failures[0], EnvironmentDied)
    assert not is_alive(pid)
    with pytest.raises(EnvironmentDied, match="stopping"):
        pool.invoke({})
