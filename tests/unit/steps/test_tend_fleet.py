import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from spotgrad.errors import StoreUnavailable
from spotgrad.planning.offer import Offer
from spotgrad.planning.standing import open_items
from spotgrad.protocol.keys import ActiveKey, FleetKey, HeadKey, SpecKey
from spotgrad.protocol.muster import Muster
from spotgrad.steps.tend_fleet import Tended, tend_fleet
from tests.builders import JOB, Bench
from tests.fakes.faults import Fault
from tests.fakes.fleet import FakeFleet
from tests.fakes.store import Write

ON_DEMAND = Offer("on_demand", spot=False, gpus=0)
FLEET = FleetKey("spot").render()


@pytest.fixture
def bench() -> Bench:
    """Epoch 1 of four shards is out."""
    made = Bench()
    made.start(4, workers={"max": 3})
    return made


@pytest.fixture
def fleet(bench: Bench) -> FakeFleet:
    return FakeFleet(bench.clock)


def second_job(bench: Bench, *, spot: bool = True) -> None:
    """A twin of the job, by another name, at the same point."""
    for key in (HeadKey, SpecKey):
        body = bench.store.get(key(JOB).render()).body.replace(b'"digits"', b'"twin"', 1)
        if not spot:  # another run: plans are remembered by it
            body = body.replace(bench.head.run.encode(), b"ab" * 8)
            body = body.replace(b'"spot":true', b'"spot":false')
        bench.store.put(key("twin").render(), body)
    bench.store.put(ActiveKey("twin").render(), b"")


def test_without_a_live_job_the_fleet_is_not_even_asked() -> None:
    bench = Bench()
    fleet = FakeFleet(bench.clock)
    assert tend_fleet(bench.world, [fleet]) == Tended()
    assert fleet.calls == {}
    assert bench.store.calls["put"] == 0


def test_a_job_that_is_being_planned_wants_no_worker_yet() -> None:
    bench = Bench()
    bench.store.put(ActiveKey(JOB).render(), b"")
    assert tend_fleet(bench.world, [FakeFleet(bench.clock)]) == Tended()


def test_what_is_missing_is_started_once(bench: Bench, fleet: FakeFleet) -> None:
    assert tend_fleet(bench.world, [fleet]) == Tended(wanted=3, alive=0, started=3)
    assert tend_fleet(bench.world, [fleet]) == Tended(wanted=3, alive=3, started=0)
    fleet.board()
    bench.clock.advance(3600)
    assert tend_fleet(bench.world, [fleet]) == Tended(wanted=3, alive=3, started=0)
    assert fleet.started == 3


def test_fewer_open_subtasks_want_fewer_workers(bench: Bench, fleet: FakeFleet) -> None:
    for shard in range(3):
        bench.aggregate(bench.trained(1, shard))
    assert tend_fleet(bench.world, [fleet]).wanted == 1


def test_the_jobs_of_a_fleet_add_up(bench: Bench, fleet: FakeFleet) -> None:
    second_job(bench)
    assert tend_fleet(bench.world, [fleet]) == Tended(wanted=6, alive=0, started=6)


def test_each_jobs_workers_are_started_in_the_first_fleet_that_serves_it(bench: Bench) -> None:
    second_job(bench, spot=False)
    spot, on_demand = FakeFleet(bench.clock), FakeFleet(bench.clock, offer=ON_DEMAND)
    assert tend_fleet(bench.world, [spot, on_demand]) == Tended(wanted=6, alive=0, started=6)
    assert (spot.started, on_demand.started) == (3, 3)
    assert tend_fleet(bench.world, [spot, on_demand]).started == 0
    for name in ("spot", "on_demand"):
        assert Muster.from_json(bench.store.get(FleetKey(name).render()).body).workers == 3
    assert tend_fleet(bench.world, [spot]) == Tended(wanted=3, alive=3)  # nobody serves the other


def test_a_fleet_that_fails_does_not_stop_the_others(bench: Bench) -> None:
    second_job(bench, spot=False)
    spot, on_demand = FakeFleet(bench.clock), FakeFleet(bench.clock, offer=ON_DEMAND)
    spot.faults.order(Fault.UNAVAILABLE, operation="look")
    with pytest.raises(StoreUnavailable):
        tend_fleet(bench.world, [spot, on_demand])
    assert (spot.started, on_demand.started) == (0, 3)


def test_a_job_that_cannot_be_read_does_not_stop_the_others(bench: Bench, fleet: FakeFleet) -> None:
    second_job(bench)
    bench.store.put(HeadKey("twin").render(), b"damaged")
    assert tend_fleet(bench.world, [fleet]).wanted == 3
    second_job(bench)
    bench.store.put(SpecKey("twin").render(), b"damaged")
    bench.start_cold()
    body = bench.store.get(HeadKey("twin").render()).body
    bench.store.put(HeadKey("twin").render(), body.replace(bench.head.run.encode(), b"ab" * 8))
    assert tend_fleet(bench.world, [fleet]).wanted == 3


def test_a_start_that_is_not_listed_yet_is_not_made_again(bench: Bench) -> None:
    fleet = FakeFleet(bench.clock, listed_after_seconds=20)
    tend_fleet(bench.world, [fleet])
    bench.clock.advance(19)
    assert tend_fleet(bench.world, [fleet]) == Tended(wanted=3, alive=0, started=0)
    bench.clock.advance(41)
    assert tend_fleet(bench.world, [fleet]) == Tended(wanted=3, alive=3, started=0)


def test_who_comes_second_counts_what_the_first_is_about_to_start(
    bench: Bench, fleet: FakeFleet
) -> None:
    """Between the look and the note somebody else starts: the note is refused, and read."""
    other = replace(bench.world)

    def meanwhile(write: Write) -> None:
        if (write.key, write.moment) == (FLEET, "before"):
            bench.store.on_write = None
            assert tend_fleet(other, [fleet]).started == 3

    bench.store.on_write = meanwhile
    assert tend_fleet(bench.world, [fleet]).started == 0
    assert fleet.started == 3


def test_many_at_once_start_no_more_than_one_would(bench: Bench) -> None:
    fleet = FakeFleet(bench.clock, listed_after_seconds=20)
    barrier = threading.Barrier(8)

    def run(_: int) -> int:
        world = replace(bench.world)
        barrier.wait()
        return tend_fleet(world, [fleet]).started

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(run, range(8))) == fleet.started == 3


def test_who_loses_each_time_leaves_it_to_the_next_minute(bench: Bench, fleet: FakeFleet) -> None:
    bench.store.faults.order(Fault.CONFLICT, key=FLEET, times=3)
    bench.store.put(FLEET, Muster(at=bench.clock.now(), workers=0).to_json())
    assert tend_fleet(bench.world, [fleet]) == Tended(wanted=3, alive=0, started=0)
    assert tend_fleet(bench.world, [fleet]).started == 3


def test_who_dies_between_note_and_start_is_made_good_a_minute_later(
    bench: Bench, fleet: FakeFleet
) -> None:
    fleet.faults.order(Fault.UNAVAILABLE, operation="start")
    with pytest.raises(StoreUnavailable):
        tend_fleet(bench.world, [fleet])
    bench.clock.advance(59)
    assert tend_fleet(bench.world, [fleet]).started == 0
    bench.clock.advance(1)
    assert tend_fleet(bench.world, [fleet]).started == 3


def test_a_start_that_broke_off_half_way_is_completed(bench: Bench, fleet: FakeFleet) -> None:
    fleet.faults.order(Fault.ANSWER_LOST, operation="start")
    with pytest.raises(StoreUnavailable):
        tend_fleet(bench.world, [fleet])
    bench.clock.advance(60)
    assert tend_fleet(bench.world, [fleet]) == Tended(wanted=3, alive=1, started=2)


def test_a_damaged_note_is_replaced(bench: Bench, fleet: FakeFleet) -> None:
    bench.store.put(FLEET, b"damaged")
    assert tend_fleet(bench.world, [fleet]).started == 3
    assert Muster.from_json(bench.store.get(FLEET).body).workers == 3


def test_workers_that_end_at_once_are_not_started_every_minute(
    bench: Bench, fleet: FakeFleet
) -> None:
    bench.clock.advance(1)
    for _ in range(60):
        tend_fleet(bench.world, [fleet])
        fleet.vanish()
        bench.clock.advance(60)
    assert fleet.started == 3 * 6  # after 0, 1, 3, 7, 15 and 31 minutes
    bench.aggregate(bench.trained(1, 0))
    assert tend_fleet(bench.world, [fleet]).started == 3


@pytest.mark.parametrize("seed", range(20))
def test_spot_comes_and_goes_and_the_fleet_follows(seed: int) -> None:
    """However workers vanish, no more are alive than there is work for, and the job ends."""
    bench, dice = Bench(), random.Random(seed)  # noqa: S311 - it only has to vary
    fleet = FakeFleet(bench.clock, listed_after_seconds=dice.choice([0, 5, 25]))
    bench.start(6, workers={"max": 4})
    for _ in range(200):
        tended = tend_fleet(bench.world, [fleet])
        assert fleet.look().alive <= 4
        if bench.head.ended:
            break
        bench.clock.advance(60)
        fleet.board(fleet.look().coming)
        if fleet.running and dice.random() < 0.7:
            bench.aggregate(bench.work(next(iter(open_items(bench.head)))))
        if dice.random() < 0.3:
            fleet.vanish()
        assert tended.wanted <= 4
    assert bench.head.state == "SUCCEEDED"
    assert tend_fleet(bench.world, [fleet]) == Tended()
