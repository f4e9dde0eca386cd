import pytest

from spotgrad.errors import InvalidJob
from spotgrad.planning.averaging import Collaboration, Peer
from spotgrad.planning.step_time import (
    MOST_FLOWS,
    Exchange,
    compute_seconds,
    least_seconds,
    step_times,
)
from tests.unit.planning.peers import GBPS, group, peer

GIGABIT = Exchange(parameters=62_500_000, efficiency=1.0)
"""One gigabit a vector, on links that carry all that they promise."""


def test_every_strategy_has_a_row() -> None:
    mixed = group(*[1] * 8, *[0.2] * 16)
    rows = {row.strategy: row for row in step_times(mixed, GIGABIT)}
    assert {name: row.averaging_seconds for name, row in rows.items()} == pytest.approx(
        {"all-reduce": 46 / 24 / 0.2, "parameter server": 23, "hybrid": 5, "bucket": 15}
    )
    assert [row.shares is None for row in rows.values()] == [False, False, False, True]
    assert rows["bucket"].slowest == 8
    assert {(row.step_seconds, row.overlapped_seconds) for row in rows.values()} == {(None, None)}


def test_all_reduce_has_no_row_where_those_who_compute_cannot_be_reached() -> None:
    behind = peer(1, aggregates=False)
    peers = Collaboration((behind, behind, peer(1, computes=False)))
    assert [row.strategy for row in step_times(peers, GIGABIT)] == [
        *("parameter server", "hybrid", "bucket")
    ]


def test_links_that_carry_less_make_averaging_longer() -> None:
    peers = group(1, 1, 1)
    half = Exchange(parameters=62_500_000, efficiency=0.5)
    for full, slower in zip(step_times(peers, GIGABIT), step_times(peers, half), strict=True):
        assert slower.averaging_seconds == pytest.approx(2 * full.averaging_seconds)


def test_a_helper_uploads_nothing_to_the_bucket() -> None:
    peers = Collaboration((peer(1), peer(1), peer(0.001, computes=False)))
    assert step_times(peers, GIGABIT)[-1].averaging_seconds == pytest.approx(3)


def test_a_step_computes_and_averages() -> None:
    peers = Collaboration(
        (
            Peer(GBPS, GBPS, samples_per_second=60),
            Peer(GBPS, GBPS, samples_per_second=40),
            Peer(GBPS, GBPS, computes=False),
        )
    )
    exchange = Exchange(parameters=62_500_000, efficiency=1.0, target_batch=200)
    hybrid = step_times(peers, exchange)[2]
    assert hybrid.averaging_seconds == pytest.approx(1)
    assert hybrid.step_seconds == pytest.approx(2 + 1)
    assert hybrid.overlapped_seconds == pytest.approx(2)
    slow = Exchange(parameters=625_000_000, efficiency=1.0, target_batch=200)
    assert step_times(peers, slow)[2].overlapped_seconds == pytest.approx(10)


def test_a_batch_needs_to_know_how_fast_each_computes() -> None:
    peers = (Peer(GBPS, GBPS, samples_per_second=60), Peer(GBPS, GBPS))
    assert compute_seconds(peers, None) is None
    with pytest.raises(InvalidJob, match=r"how fast peer 2 computes.*add @SAMPLES_PER_SECOND"):
        compute_seconds(peers, 100)


def test_no_flow_is_faster_than_that() -> None:
    mixed = group(1, 1, 0.1)
    assert least_seconds(mixed, GIGABIT) == pytest.approx(10)
    many = group(*[1] * (MOST_FLOWS + 1))
    assert least_seconds(many, GIGABIT) is None
