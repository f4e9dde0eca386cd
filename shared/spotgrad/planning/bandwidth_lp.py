"""The bandwidth problem of DeDLOC as linear programmes, solved by HiGHS (scipy).

Nothing that a function or a worker loads imports this: scipy comes with the command line alone.
Bandwidths are in bits per second. Invariant: solutions are feasible, and no worse than
``averaging.balanced``, which is the closed form of the first.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array

from spotgrad.errors import Unsupported
from spotgrad.planning.averaging import (
    Collaboration,
    Link,
    Split,
    balance,
    equal_shares,
    split_of,
)

Matrix = NDArray[np.float64]

AGREEMENT: Final = 1e-5
"""HiGHS keeps to 1e-7 of the time of a plain split, and the optimum may be much smaller."""


def balance_by_lp(links: Sequence[Link]) -> Split:
    """Return an optimum of the programme that DeDLOC's code solves: the slowest peer is fastest.

    Minimise xi subject to ``base_i + slope_i w_i <= xi b_i``, ``sum w = 1``, ``0 <= w_i <= 1``, and
    ``w_i = 0`` for peers that cannot be reached.
    """
    peers = len(links)
    limit = _reachable(links)
    loads = np.zeros((peers, peers + 1))
    bounds = np.zeros(peers)
    for place, link in enumerate(links):
        # Of the order of 1, whatever the bandwidths: HiGHS has absolute tolerances.
        busy = 1 / (link.bandwidth_bps * limit)
        scale = max(1.0, busy * link.slope)
        loads[place, place] = busy * link.slope / scale
        loads[place, peers] = -1 / scale
        bounds[place] = -busy * link.base / scale
    found = _solve(
        [0.0] * peers + [1.0],
        A_ub=loads,
        b_ub=bounds,
        A_eq=[[1.0] * peers + [0.0]],
        b_eq=[1.0],
        bounds=[(0, 1 if link.aggregates else 0) for link in links] + [(0, None)],
    )
    return split_of(links, tuple(float(share) for share in found[:peers]))


def _reachable(links: Sequence[Link]) -> float:
    """Return how long the better of two plain splits takes: the optimum is at most that."""
    able = [link.aggregates for link in links]
    best = [link.seconds_per_bit(1.0) if link.aggregates else math.inf for link in links]
    alone = tuple(float(place == best.index(min(best))) for place in range(len(links)))
    splits = (split_of(links, shares) for shares in (equal_shares(able), alone))
    return min(split.seconds_per_bit for split in splits)


def hybrid(
    collaboration: Collaboration, solve: Callable[[Sequence[Link]], Split] = balance_by_lp
) -> Split:
    """Return the load-balanced split: of the programme's optima the one of the closed form.

    It is the one in which equal peers have equal shares; HiGHS returns any.

    Raises:
        Unsupported: the two do not agree, which never happened.
    """
    links = collaboration.links()
    solved, even = solve(links).seconds_per_bit, balance(links)
    if not math.isclose(solved, even.seconds_per_bit, rel_tol=AGREEMENT):
        raise Unsupported(
            f"peers: the closed form takes {even.seconds_per_bit:g} s a bit, HiGHS {solved:g}; "
            "please report these peers"
        )
    return even


@dataclass(frozen=True)
class Flows:
    """An optimum of the general problem."""

    vectors_per_second: float
    """Per bit of a vector: divide by its bits."""
    aggregated: tuple[float, ...]
    """At what rate each peer aggregates; gradients flow to it from each that computes as fast."""
    returned: Matrix
    """Entry i, j: at what rate i returns averages to j; on the diagonal it keeps its own."""


def best_flows(collaboration: Collaboration, pairwise_bps: Matrix | None = None) -> Flows:
    """Return the flows with which most vectors per second are averaged (the paper's problem).

    With a_ki the rate at which k sends gradients to i, and g_ij that at which i returns averages
    to j: maximise ``min_j sum_i g_ij`` over those j that compute, subject to

        g_ij <= min_k a_ki                        nothing returns that has not come from everybody
        sum_j (a_ij + g_ij) <= upload of i        without i = j, which needs no network
        sum_j (a_ji + g_ji) <= download of i
        a_ij + g_ij <= ``pairwise_bps[i, j]``     where given

    Sending faster than the slowest of the senders is of no use, so a_ki = m_i for all that compute.
    That a peer which only helps needs no average is our reading; the paper's minimum runs over all.
    With symmetric links and no pairwise limits this is no faster than ``averaging.balanced``; a
    peer that downloads faster than it uploads may gain by averaging some parts for itself alone.
    """
    return _Problem(collaboration, pairwise_bps).solve()


class _Problem:
    """Variables: m of each peer, then g by sender and receiver, then the rate that is maximised."""

    def __init__(self, collaboration: Collaboration, pairwise_bps: Matrix | None) -> None:
        self._peers = collaboration.peers
        self._pairwise = pairwise_bps
        self._count = len(self._peers)
        self._unit = 1 / balance(collaboration.links()).seconds_per_bit
        self._most = 10.0 * self._count  # in this unit no peer can use as much
        self._rows: list[dict[int, float]] = []
        self._limits: list[float] = []

    def solve(self) -> Flows:
        self._bound_links()
        self._bound_pairs()
        self._receive()
        variables = self._rate + 1
        goal = np.zeros(variables)
        goal[self._rate] = -1
        found = _solve(goal, A_ub=self._matrix(variables), b_ub=self._limits, bounds=self._bounds())
        found = found * self._unit
        shape = (self._count, self._count)
        returned = found[self._count : self._rate].reshape(shape)
        aggregated = tuple(float(rate) for rate in found[: self._count])
        return Flows(float(found[self._rate]), aggregated, returned)

    @property
    def _rate(self) -> int:
        return self._count * (1 + self._count)

    def _returned(self, sender: int, receiver: int) -> int:
        return self._count * (1 + sender) + receiver

    def _units(self, bps: float) -> float:
        return min(bps / self._unit, self._most)

    def _at_most(self, limit: float, row: dict[int, float]) -> None:
        self._rows.append(row)
        self._limits.append(limit)

    def _bound_links(self) -> None:
        for place, peer in enumerate(self._peers):
            others = [other for other in range(self._count) if other != place]
            helped = sum(other.computes for other in self._peers) - peer.computes
            sent = {self._returned(place, other): 1.0 for other in others}
            received = {self._returned(other, place): 1.0 for other in others}
            own = {other: 1.0 for other in others if peer.computes}
            self._at_most(self._units(peer.upload_bps), sent | own)
            self._at_most(self._units(peer.download_bps), received | {place: float(helped)})

    def _bound_pairs(self) -> None:
        for sender, receiver in product(range(self._count), repeat=2):
            back = self._returned(sender, receiver)
            self._at_most(0.0, {back: 1.0, sender: -1.0})
            if self._pairwise is not None and sender != receiver:
                there = {receiver: 1.0} if self._peers[sender].computes else {}
                limit = self._units(self._pairwise[sender, receiver])
                self._at_most(limit, {back: 1.0} | there)

    def _receive(self) -> None:
        for receiver, peer in enumerate(self._peers):
            if peer.computes:
                got = {self._returned(sender, receiver): -1.0 for sender in range(self._count)}
                self._at_most(0.0, got | {self._rate: 1.0})

    def _bounds(self) -> list[tuple[float, float | None]]:
        able = [peer.aggregates for peer in self._peers]
        needed = [peer.computes for peer in self._peers]
        most = [*able, *(a and n for a, n in product(able, needed)), True]
        return [(0.0, None if one else 0.0) for one in most]

    def _matrix(self, variables: int) -> csr_array:
        places = [(row, column) for row, of in enumerate(self._rows) for column in of]
        values = [value for of in self._rows for value in of.values()]
        rows, columns = zip(*places, strict=True)
        return csr_array((values, (rows, columns)), shape=(len(self._rows), variables))


def _solve(goal: Any, **problem: Any) -> NDArray[np.float64]:
    found = linprog(goal, method="highs", **problem)
    if found.x is None:
        raise Unsupported(f"peers: the linear programme is not solved: {_line(found.message)}")
    solution: NDArray[np.float64] = found.x
    return solution


def _line(text: str) -> str:
    return " ".join(text.split())
