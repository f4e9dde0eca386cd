"""What every ``WorkerFleet`` does: in memory, on AWS Batch (moto, loopback), as processes.

moto holds no job back and throttles nobody: lists that lag and starts that break off are the strict
fake's (tests/fakes/fleet.py), what Batch says of a job that waits is in tests/fakes/batch.py.
"""

from datetime import timedelta

from spotgrad.planning.fleet import FleetView
from tests.contract.fleets import Yard


def test_what_it_offers_stays_the_same(yard: Yard) -> None:
    before = yard.fleet.offer
    yard.fleet.start(1)
    assert yard.fleet.offer == before


def test_nobody_is_there_before_the_first_start(yard: Yard) -> None:
    assert yard.fleet.look() == FleetView()


def test_starting_none_starts_none(yard: Yard) -> None:
    yard.fleet.start(0)
    yard.settle()
    assert yard.fleet.look().alive == 0


def test_those_that_were_started_wait_for_a_machine(yard: Yard) -> None:
    yard.fleet.start(3)
    yard.settle()
    view = yard.fleet.look()
    assert (view.running, view.coming, view.obstacle, view.mishap) == (0, 3, None, None)
    assert view.waiting_since is not None
    assert view.waiting_since.utcoffset() == timedelta(0)


def test_those_that_have_begun_run_and_wait_no_more(yard: Yard) -> None:
    yard.fleet.start(2)
    yard.board()
    assert yard.fleet.look() == FleetView(running=2)


def test_starts_add_up(yard: Yard) -> None:
    yard.fleet.start(1)
    yard.settle()
    yard.fleet.start(2)
    yard.settle()
    assert yard.fleet.look().alive == 3


def test_those_that_left_are_not_alive_and_no_mishap(yard: Yard) -> None:
    yard.fleet.start(2)
    yard.vanish()
    assert yard.fleet.look() == FleetView()
