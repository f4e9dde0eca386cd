from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotgrad.errors import Unsupported
from spotgrad.planning import bandwidth_lp
from spotgrad.planning.averaging import Collaboration, Link, balance, balanced
from spotgrad.planning.bandwidth_lp import balance_by_lp, best_flows, hybrid
from tests.unit.planning.peers import COLLABORATIONS, GBPS, LINKS, group, peer

CLOSE = 1e-5
HIVEMINDS = st.lists(LINKS, min_size=3, max_size=16).map(
    lambda bandwidths: [Link(one, 1, len(bandwidths) - 2) for one in bandwidths]
)
"""As DeDLOC's code puts it: every peer is charged for a vector of its own."""


@settings(max_examples=400, deadline=None)
@given(COLLABORATIONS)
def test_the_closed_form_is_the_optimum(collaboration: Collaboration) -> None:
    links = collaboration.links()
    solved, closed = balance_by_lp(links), balance(links)
    assert closed.seconds_per_bit == pytest.approx(solved.seconds_per_bit, rel=CLOSE)
    assert sum(solved.shares) == pytest.approx(1)


@settings(max_examples=300, deadline=None)
@given(HIVEMINDS)
def test_so_it_is_in_the_form_of_hivemind(links: list[Link]) -> None:
    solved, closed = balance_by_lp(links), balance(links)
    assert closed.seconds_per_bit == pytest.approx(solved.seconds_per_bit, rel=CLOSE)
    slowest = max(1 / link.bandwidth_bps for link in links)
    root = balance([replace(link, base=0.0) for link in links]).seconds_per_bit
    assert closed.seconds_per_bit >= max(slowest, root) * (1 - CLOSE)


@settings(max_examples=100, deadline=None)
@given(COLLABORATIONS)
def test_on_symmetric_links_no_flow_is_faster_than_shares(collaboration: Collaboration) -> None:
    """Observed, not proved: the general problem has the closed form's optimum then."""
    peers = (replace(one, download_bps=one.upload_bps) for one in collaboration.peers)
    symmetric = Collaboration(tuple(peers))
    rate = best_flows(symmetric).vectors_per_second
    assert rate * balanced(symmetric).seconds_per_bit == pytest.approx(1, rel=1e-5)


@settings(max_examples=100, deadline=None)
@given(COLLABORATIONS)
def test_no_shares_are_faster_than_the_best_flow(collaboration: Collaboration) -> None:
    rate = best_flows(collaboration).vectors_per_second
    assert rate * balanced(collaboration).seconds_per_bit >= 1 - 1e-5


def test_a_peer_that_downloads_faster_may_average_for_itself_alone() -> None:
    sender, helper = peer(1, aggregates=False), peer(1, 2, computes=False)
    collaboration = Collaboration((sender, sender, helper, peer(1, 2)))
    flows = best_flows(collaboration)
    assert flows.vectors_per_second * balanced(collaboration).seconds_per_bit > 1.07
    assert flows.returned[3, 3] > flows.returned[3, 0] + 0.2 * GBPS


@settings(max_examples=60, deadline=None)
@given(COLLABORATIONS, st.randoms(use_true_random=False))
def test_flows_keep_to_every_limit(collaboration: Collaboration, random: Random) -> None:
    count = len(collaboration.peers)
    draw = np.random.default_rng(random.getrandbits(32))
    pairs = 10 ** draw.uniform(6, 10, (count, count))
    flows = best_flows(collaboration, pairs)
    free = best_flows(collaboration).vectors_per_second
    assert flows.vectors_per_second <= free * (1 + CLOSE)
    computes = np.array([one.computes for one in collaboration.peers])
    rates, back = np.array(flows.aggregated), flows.returned
    there = np.outer(computes, rates)
    between = (there + back) * (1 - np.eye(count))
    slack = CLOSE * max(one.bandwidth_bps for one in collaboration.peers)
    assert (back <= rates[:, None] + slack).all()
    assert (between <= pairs + slack).all()
    assert (between.sum(1) <= np.array([o.upload_bps for o in collaboration.peers]) + slack).all()
    assert (between.sum(0) <= np.array([o.download_bps for o in collaboration.peers]) + slack).all()
    assert (back.sum(0)[computes] >= flows.vectors_per_second - slack).all()


def test_a_slow_pair_is_gone_round() -> None:
    peers = group(1, 1, 1)
    pairs = np.full((3, 3), GBPS)
    free = best_flows(peers, pairs).vectors_per_second
    pairs[0, 1] = pairs[1, 0] = 0
    flows = best_flows(peers, pairs)
    assert free == pytest.approx(0.75 * GBPS)
    assert flows.vectors_per_second == pytest.approx(0.5 * GBPS)  # the third is their server
    assert flows.aggregated == pytest.approx((0, 0, 0.5 * GBPS))


def test_a_helper_that_is_the_server_needs_no_average() -> None:
    sender = peer(1, aggregates=False)
    flows = best_flows(Collaboration((sender, sender, peer(2, computes=False))))
    assert flows.vectors_per_second == pytest.approx(GBPS)
    assert flows.returned[2] == pytest.approx([GBPS, GBPS, 0])


def test_the_hybrid_gives_equal_peers_equal_shares() -> None:
    split = hybrid(group(*[1] * 8, *[0.2] * 16))
    assert split.shares == pytest.approx((1 / 8,) * 8 + (0.0,) * 16)
    assert split.seconds_per_bit * GBPS == pytest.approx(5)


def test_a_solver_that_finds_something_better_is_believed_by_nobody() -> None:
    peers = group(1, 1, 1)
    better = replace(balance(peers.links()), seconds_per_bit=1e-9)
    with pytest.raises(Unsupported, match="please report these peers"):
        hybrid(peers, lambda _: better)


def test_a_programme_without_a_solution_is_said_to_be_none() -> None:
    with pytest.raises(Unsupported, match=r"^peers: the linear programme is not solved: .*infeas"):
        bandwidth_lp._solve([1.0], A_eq=[[1.0]], b_eq=[2.0], bounds=[(0, 1)])


@pytest.mark.parametrize(
    "links",
    [(1e-9, 1e-9, 1e3), (1e-9, 1e3, 1e3, 1e3), (1e-8, 1e-4, 1, 1e4), (1,) * 100],
    ids=["a server", "one is slow", "all differ", "many"],
)
def test_however_far_bandwidths_lie_apart(links: tuple[float, ...]) -> None:
    peers = group(*links)
    best = hybrid(peers)
    solved = balance_by_lp(peers.links()).seconds_per_bit
    assert best.seconds_per_bit == pytest.approx(solved, rel=CLOSE)
    rate = best_flows(group(*links[:20])).vectors_per_second
    assert rate * hybrid(group(*links[:20])).seconds_per_bit == pytest.approx(1, rel=1e-5)
