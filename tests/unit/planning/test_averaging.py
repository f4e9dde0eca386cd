import pytest
from hypothesis import given

from spotgrad.errors import InvalidJob
from spotgrad.planning.averaging import (
    Collaboration,
    Link,
    Peer,
    all_reduce,
    balance,
    balanced,
    parameter_server,
    split_of,
)
from tests.unit.planning.peers import COLLABORATIONS, GBPS, group, peer


@pytest.mark.parametrize(
    ("peers", "words"),
    [
        ((), "peers: 0 compute; averaging needs two at least"),
        ((peer(1), peer(1, computes=False)), "peers: 1 compute; averaging needs two at least"),
        ((peer(1, aggregates=False),) * 2, "peers: nobody aggregates"),
        ((peer(1), peer(1, 0)), "peers: a link carries nothing"),
        ((peer(1), peer(-1)), "peers: a link carries nothing"),
    ],
)
def test_what_cannot_average_is_refused(peers: tuple[Peer, ...], words: str) -> None:
    with pytest.raises(InvalidJob, match=words):
        Collaboration(peers)


def test_equal_peers_all_reduce() -> None:
    split = all_reduce(group(*[1] * 8))
    assert split is not None
    assert split.shares == (1 / 8,) * 8
    assert split.seconds_per_bit * GBPS == pytest.approx(2 * 7 / 8)  # as every ring or butterfly


def test_a_server_receives_and_returns_a_vector_for_each_other_peer() -> None:
    split = parameter_server(group(*[0.2] * 16, 2.5))
    assert split.shares == (0.0,) * 16 + (1.0,)
    assert split.seconds_per_bit * GBPS == pytest.approx(16 / 2.5)
    assert split.slowest == 16


def test_a_helper_sends_no_vector_of_its_own() -> None:
    helped = Collaboration((peer(1), peer(1), peer(1), peer(1, computes=False)))
    server = split_of(helped.links(), (0.0, 0.0, 0.0, 1.0))
    assert server.seconds_per_bit * GBPS == pytest.approx(3)
    assert all_reduce(helped) == split_of(helped.links(), (1 / 3, 1 / 3, 1 / 3, 0.0))


def test_who_cannot_be_reached_aggregates_nothing() -> None:
    behind = peer(1, aggregates=False)
    collaboration = Collaboration((behind, peer(1), peer(1)))
    assert balanced(collaboration).shares == (0.0, 0.5, 0.5)
    assert parameter_server(collaboration).shares == (0.0, 1.0, 0.0)
    split = all_reduce(collaboration)
    assert split is not None
    assert split.shares == (0.0, 0.5, 0.5)
    assert all_reduce(Collaboration((behind, behind, peer(9, computes=False)))) is None


def test_the_slower_direction_of_a_link_binds() -> None:
    lopsided = Collaboration((peer(1), peer(1), peer(0.1, 5)))
    assert balanced(lopsided) == balanced(group(1, 1, 0.1))


def test_two_peers_have_the_same_load_whoever_aggregates() -> None:
    split = balanced(group(1, 0.5))
    assert split.shares == (0.5, 0.5)
    assert split.seconds_per_bit * GBPS == pytest.approx(2)


def test_the_mix_of_the_papers_cloud_run() -> None:
    mixed = group(*[0.2] * 4, *[0.1] * 8, *[0.05] * 4)
    equal, best = all_reduce(mixed), balanced(mixed)
    assert equal is not None
    assert equal.seconds_per_bit * GBPS == pytest.approx(37.5)
    assert best.seconds_per_bit * GBPS == pytest.approx(20)  # the slowest peers' own vectors
    assert mixed.peers[best.slowest] == peer(0.05)
    assert best.shares[-4:] == (0.0,) * 4


def test_where_the_slowest_links_bind_nobody_aggregates_who_need_not() -> None:
    split = balanced(group(*[1] * 8, *[0.2] * 16))
    assert split.shares == pytest.approx((1 / 8,) * 8 + (0.0,) * 16)


def test_a_share_ends_at_the_whole_vector() -> None:
    split = balanced(group(0.001, 0.001, 1000))
    assert split.shares == pytest.approx((0.0, 0.0, 1.0))


@given(COLLABORATIONS)
def test_no_strategy_beats_the_balanced_one(collaboration: Collaboration) -> None:
    best = balanced(collaboration)
    assert sum(best.shares) == pytest.approx(1)
    assert min(best.shares) >= 0
    assert best.seconds_per_bit == max(
        link.seconds_per_bit(share)
        for link, share in zip(collaboration.links(), best.shares, strict=True)
    )
    for other in (all_reduce(collaboration), parameter_server(collaboration)):
        if other is not None:
            assert best.seconds_per_bit <= other.seconds_per_bit * (1 + 1e-9)
    for place, one in enumerate(collaboration.peers):
        assert one.aggregates or best.shares[place] == 0


@given(COLLABORATIONS)
def test_a_faster_link_never_slows_a_round(collaboration: Collaboration) -> None:
    slow = balanced(collaboration)
    first, *others = collaboration.peers
    faster = Peer(2 * first.upload_bps, 2 * first.download_bps, first.computes, first.aggregates)
    quick = balanced(Collaboration((faster, *others)))
    assert quick.seconds_per_bit <= slow.seconds_per_bit * (1 + 1e-9)


def test_hivemind_charges_a_helper_for_a_vector_that_it_does_not_send() -> None:
    theirs = balance([Link(one * GBPS, 1, 2) for one in (1, 1, 1, 0.5)])
    ours = balanced(Collaboration((peer(1), peer(1), peer(1), peer(0.5, computes=False))))
    assert theirs.seconds_per_bit * GBPS == pytest.approx(2)
    assert ours.seconds_per_bit * GBPS == pytest.approx(24 / 19)  # 3 (xi - 1) + xi / 6 = 1
