"""Peers to average with: by hand in Gb/s, and any at all."""

from hypothesis import strategies as st

from spotgrad.errors import InvalidJob
from spotgrad.planning.averaging import Collaboration, Peer

GBPS = 1e9
LINKS = st.floats(1e6, 1e10)


def peer(
    up: float, down: float | None = None, *, computes: bool = True, aggregates: bool = True
) -> Peer:
    """A peer with so many Gb/s, both ways unless told otherwise."""
    return Peer(up * GBPS, (up if down is None else down) * GBPS, computes, aggregates)


def group(*gigabits: float) -> Collaboration:
    """Peers that compute and aggregate."""
    return Collaboration(tuple(peer(one) for one in gigabits))


def _is_valid(peers: list[Peer]) -> bool:
    try:
        Collaboration(tuple(peers))
    except InvalidJob:
        return False
    return True


ANY_PEER = st.builds(Peer, LINKS, LINKS, st.booleans(), st.booleans())
COLLABORATIONS = (
    st.lists(ANY_PEER, min_size=2, max_size=9)
    .filter(_is_valid)
    .map(lambda peers: Collaboration(tuple(peers)))
)
