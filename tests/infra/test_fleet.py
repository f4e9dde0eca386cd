import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.local import fleet as fleet_module
from infra.local.environment import child_environment
from infra.local.fleet import STARTS_PER_WORKER, Fleet, WorkersFailed, paced
from spotgrad.errors import Reject
from spotgrad.planning.fleet import FleetView
from spotgrad.protocol.job import Workers
from tests.infra.conftest import is_alive

MakeFleet = Callable[..., Fleet]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeFleet]:
    fleets: list[Fleet] = []

    def make(places: int, behaviour: str = "obey", *more: str) -> Fleet:
        fleets.append(
            Fleet(
                places,
                lambda name: child_environment(extra={"NAME": name}),
                tmp_path / "logs" / "workers.log",
                lambda _: (behaviour, *more),
                module="tests.infra.workers",
            )
        )
        fleets[-1].start(places)
        return fleets[-1]

    yield make
    for fleet in fleets:
        fleet.stop()


def kill(fleet: Fleet, name: str) -> int:
    """SIGKILL a worker and wait until the kernel says so."""
    pid = fleet.pids[name]
    os.kill(pid, signal.SIGKILL)
    while is_alive(pid):
        os.sched_yield()
    return pid


def test_it_starts_as_many_as_wanted_each_with_a_name_of_its_own(make: MakeFleet) -> None:
    fleet = make(3)
    assert fleet.pids == {}
    assert fleet.tend() == 0
    assert set(fleet.pids) == {"local-1", "local-2", "local-3"}
    said = [child.stdout.readline() for child in fleet._children.values()]
    assert said == [b"local-1\n", b"local-2\n", b"local-3\n"]
    assert sorted(fleet.started) == sorted(fleet.pids.values())
    before = fleet.pids
    assert fleet.tend() == 0
    assert fleet.pids == before  # all are well: nothing to do


def test_more_than_there_are_places_for_wait(make: MakeFleet) -> None:
    fleet = make(2)
    fleet.start(1)
    assert (fleet.look().running, fleet.look().coming) == (0, 3)
    fleet.tend()
    view = fleet.look()
    assert (view.running, view.coming) == (2, 1)
    assert view.waiting_since is not None
    kill(fleet, "local-1")
    fleet.tend()  # a place is kept for the one that had it
    assert (fleet.look().running, fleet.look().coming) == (2, 1)
    fleet.stop()
    assert fleet.look() == FleetView()


def test_fewer_than_there_are_places_stay_as_few(make: MakeFleet) -> None:
    fleet = make(1)
    fleet._places = 3
    fleet.tend()
    assert list(fleet.pids) == ["local-1"]


def test_it_serves_every_job() -> None:
    for asks in ({}, {"spot": False}, {"gpu": 8}):
        assert Fleet.offer.serves(Workers.model_validate(asks))


def test_a_dead_worker_is_replaced_and_counted(make: MakeFleet) -> None:
    fleet = make(2)
    fleet.tend()
    survivor = fleet.pids["local-2"]
    dead = kill(fleet, "local-1")
    assert fleet.tend() == 1
    assert set(fleet.pids) == {"local-2", "local-3"}
    assert fleet.pids["local-2"] == survivor
    assert is_alive(fleet.pids["local-3"])
    kill(fleet, "local-2")
    kill(fleet, "local-3")
    assert fleet.tend() == 2
    assert set(fleet.pids) == {"local-4", "local-5"}
    assert len(fleet.started) == 5
    assert dead in fleet.started


def test_dismissed_workers_leave_by_themselves(make: MakeFleet) -> None:
    fleet = make(2)
    fleet.tend()
    children = list(fleet._children.values())
    fleet.dismiss()
    assert [child.stdout.read()[:5] for child in children] == [b"local"] * 2  # to their very end
    fleet.dismiss()  # once more is no error
    fleet.stop()
    assert [child.poll() for child in children] == [0, 0]


def test_stop_leaves_no_process(make: MakeFleet) -> None:
    fleet = make(2)
    fleet.tend()
    pids = list(fleet.pids.values())
    kill(fleet, "local-1")  # one that is dead already is no obstacle
    fleet.stop()
    assert not any(is_alive(pid) for pid in pids)
    assert fleet.pids == {}
    assert fleet.started == pids
    fleet.stop()


def test_those_that_do_not_leave_are_killed_after_one_grace_for_all(
    make: MakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_module, "GRACE_SECONDS", 0.5)
    fleet = make(4, "deaf")
    fleet.tend()
    children = list(fleet._children.values())
    begun = time.monotonic()
    fleet.stop()
    assert [child.poll() for child in children] == [-signal.SIGKILL] * 4
    assert 0.5 <= time.monotonic() - begun < 15


def test_workers_that_never_survive_end_the_run_with_their_last_words(
    make: MakeFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_module, "STARTS_PER_WORKER", 2)
    fleet = make(1, "fail")
    replaced = 0

    def tend_until_it_fails() -> None:
        nonlocal replaced
        while True:
            for pid in fleet.pids.values():
                while is_alive(pid):
                    os.sched_yield()
            replaced += fleet.tend()

    with pytest.raises(WorkersFailed) as failed:
        tend_until_it_fails()
    assert replaced == 1
    assert len(fleet.started) == 2
    assert str(failed.value) == (
        "workers end as fast as they start: ImportError: no module named torch"
        f" (see {tmp_path / 'logs' / 'workers.log'})"
    )
    assert isinstance(failed.value, Reject)  # a person has to act: exit code 1, one line


def test_a_job_that_gets_on_may_lose_any_number_of_workers(
    make: MakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_module, "STARTS_PER_WORKER", 2)
    fleet = make(1)
    fleet.tend(0)
    for progress in range(1, 5):
        kill(fleet, next(iter(fleet.pids)))
        assert fleet.tend(progress) == 1
    for _ in range(1):
        kill(fleet, next(iter(fleet.pids)))
        assert fleet.tend(4) == 1
    kill(fleet, next(iter(fleet.pids)))
    with pytest.raises(WorkersFailed, match="without a word"):
        fleet.tend(3)  # fewer than before: no progress


def test_the_limit_outlasts_a_subtask_that_kills_every_worker() -> None:
    assert STARTS_PER_WORKER > 20  # retries.interruptions: then the subtask is dead, not the run


def test_waits_are_handed_out_in_turn() -> None:
    assert [paced([0.0, 2.5])(number) for number in (1, 2, 3)] == [
        ("--slow", "0.0"),
        ("--slow", "2.5"),
        ("--slow", "0.0"),
    ]
    assert paced(())(1) == ()
