"""Averaging: which peer sums up which share of a vector, and how long a round of that takes.

The butterfly of DeDLOC (Diskin et al., 2021): every peer that computes sends each part of its
vector to the peer that aggregates the part, and gets the average of that part back. Whoever
aggregates the share w of a vector of V bits, among C peers that compute, sends

    V [ (1 - w) + w (C - 1) ]   if it computes itself,      V w C   if it only helps,

and receives as much. All-reduce gives equal shares, a parameter server all to one peer, and the
hybrid whatever makes the slowest peer fastest. Here in closed form; ``bandwidth_lp`` has the linear
programmes. Not a protocol: no bytes move. Invariant: shares are from 0 to 1 and sum to 1.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from spotgrad.errors import InvalidJob

LINK_EFFICIENCY: Final = 0.70
"""The share of its nominal bandwidth that a link carries: the one parameter of the model, fitted to
the twelve averaging times of DeDLOC's paper, each of which it then gives within 20%
(``tests/unit/planning/test_averaging_table.py``)."""

Shares = tuple[float, ...]
"""What each peer aggregates, in the peers' order."""


@dataclass(frozen=True)
class Peer:
    """One machine; bandwidths in bits per second of its own link, both ways at once."""

    upload_bps: float
    download_bps: float
    computes: bool = True
    """It has a vector to average and needs the average; else it only helps (a CPU server)."""
    aggregates: bool = True
    """Others can reach it; one behind a firewall only sends its own vector and receives."""
    samples_per_second: float | None = None
    """How fast it computes; None where nobody knows."""

    @property
    def bandwidth_bps(self) -> float:
        """Return what binds: in the butterfly a peer sends exactly as much as it receives."""
        return min(self.upload_bps, self.download_bps)


@dataclass(frozen=True)
class Collaboration:
    """Peers that average with each other.

    Raises:
        InvalidJob: fewer than two compute, nobody aggregates, or a link carries nothing.
    """

    peers: tuple[Peer, ...]

    def __post_init__(self) -> None:
        if self.computing < 2:
            raise InvalidJob(f"peers: {self.computing} compute; averaging needs two at least")
        if not any(peer.aggregates for peer in self.peers):
            raise InvalidJob("peers: nobody aggregates; at least one must be reachable")
        if min(peer.bandwidth_bps for peer in self.peers) <= 0:
            raise InvalidJob("peers: a link carries nothing; every bandwidth must be above 0")

    @property
    def computing(self) -> int:
        """Return how many peers compute: C above."""
        return sum(peer.computes for peer in self.peers)

    def links(self) -> "list[Link]":
        """Return each peer's load as a function of its share."""
        return [self._link(peer) for peer in self.peers]

    def _link(self, peer: Peer) -> "Link":
        own = int(peer.computes)
        return Link(peer.bandwidth_bps, own, self.computing - 2 * own, peer.aggregates)


@dataclass(frozen=True)
class Link:
    """Load of one peer with the share w, in vectors: ``base + slope * w``, each way.

    hivemind's own form, which DeDLOC used, is ``Link(b, 1, n - 2)`` for each of n peers with
    bandwidth b, and no link where b = 0: it charges helpers for a vector that they do not send, and
    does not look at the bandwidth of peers that only send.
    """

    bandwidth_bps: float
    base: float
    slope: float
    aggregates: bool = True

    def seconds_per_bit(self, share: float) -> float:
        """Return how long this peer is busy, per bit of the vector."""
        return (self.base + self.slope * share) / self.bandwidth_bps

    def affordable(self, seconds_per_bit: float) -> float:
        """Return the largest share that is done in this time; 0 when not even its own part is."""
        if not self.aggregates:
            return 0.0
        spare = seconds_per_bit * self.bandwidth_bps - self.base
        return min(max(spare / self.slope, 0.0), 1.0)


@dataclass(frozen=True)
class Split:
    """Who aggregates how much, and how long that takes per bit of the vector."""

    shares: Shares
    seconds_per_bit: float
    slowest: int
    """The peer that everybody waits for: its place in the collaboration."""


def all_reduce(collaboration: Collaboration) -> Split | None:
    """Return equal shares for all that compute and can be reached; None when there is none."""
    takes_part = [peer.computes and peer.aggregates for peer in collaboration.peers]
    if not any(takes_part):
        return None
    return split_of(collaboration.links(), equal_shares(takes_part))


def parameter_server(collaboration: Collaboration) -> Split:
    """Return everything on one peer: the one with which it takes least."""
    links = collaboration.links()
    servers = [place for place, link in enumerate(links) if link.aggregates]
    splits = [split_of(links, _all_on(place, len(links))) for place in servers]
    return min(splits, key=lambda split: split.seconds_per_bit)


def balanced(collaboration: Collaboration) -> Split:
    """Return the shares with which the slowest peer is fastest, in closed form."""
    return balance(collaboration.links())


def balance(links: Sequence[Link]) -> Split:
    """Return the shares with which the slowest peer is fastest.

    That is to minimise ``xi = max_i (base_i + slope_i w_i) / b_i`` with ``sum w = 1`` and
    ``0 <= w_i <= 1``. The optimum is the larger of ``max_i base_i / b_i`` and the root of
    ``sum_i clip((xi b_i - base_i) / slope_i, 0, 1) = 1``. Where the first binds the shares are not
    unique: these are the root's, so that nobody aggregates who need not. Peers whose load does not
    grow with their share (two that average with each other: slope 0) share alike.
    """
    free = [link.aggregates and link.slope <= 0 for link in links]
    if any(free):
        return split_of(links, equal_shares(free))
    level = _level(links)
    afforded = [link.affordable(level) for link in links]
    return split_of(links, tuple(share / sum(afforded) for share in afforded))


def split_of(links: Sequence[Link], shares: Shares) -> Split:
    """Return what these shares cost."""
    busy = [link.seconds_per_bit(share) for link, share in zip(links, shares, strict=True)]
    longest = max(busy)
    return Split(shares, longest, busy.index(longest))


def equal_shares(takes_part: Sequence[bool]) -> Shares:
    """Return 1/k for each of the k that take part."""
    return tuple(taking / sum(takes_part) for taking in takes_part)


def _all_on(place: int, peers: int) -> Shares:
    return tuple(float(one == place) for one in range(peers))


def _level(links: Sequence[Link]) -> float:
    """Return the xi at which all that is affordable sums to 1: linear between breakpoints."""

    def total(xi: float) -> float:
        return sum(link.affordable(xi) for link in links)

    return _root(total, _breakpoints(links))


def _breakpoints(links: Iterable[Link]) -> list[float]:
    """Return where a share leaves 0, and where it reaches 1."""
    able = [link for link in links if link.aggregates]
    return sorted({link.seconds_per_bit(share) for link in able for share in (0.0, 1.0)})


def _root(total: Callable[[float], float], breakpoints: Sequence[float]) -> float:
    steps = list(pairwise(breakpoints))
    # The last breakpoint gives somebody the whole vector, but for rounding.
    low, high = next((step for step in steps if total(step[1]) >= 1), steps[-1])
    below, above = total(low), total(high)
    return low + (high - low) * (1 - below) / (above - below)
