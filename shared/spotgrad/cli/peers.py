"""``--peers``: groups of machines that average with each other, as a person types them.

``8x1Gb/s,16x200Mb/s@40,4x500Mb/s@0,20x20Mb/s:100Mb/s@10+client``: so many times this upload (and
download, where it differs), at so many samples per second; ``@0`` only helps, ``+client`` cannot be
reached by others.
"""

import re
from dataclasses import dataclass
from typing import Final

from spotgrad.cli.quantities import NUMBER, RATE, rate_of
from spotgrad.errors import InvalidJob
from spotgrad.planning.averaging import Collaboration, Peer

__all__ = ["PeerGroup", "collaboration_of", "peer_groups"]

MOST_PEERS: Final = 1000
_GROUP: Final = re.compile(
    rf"\s*(?:(?P<count>\d+)\s*x\s*)?(?P<up>{RATE})(?:\s*:\s*(?P<down>{RATE}))?"
    rf"(?:\s*@\s*(?P<speed>{NUMBER}))?(?P<client>\s*\+\s*client)?\s*"
)
_EXAMPLE: Final = "8x1Gb/s,16x200Mb/s@40,4x500Mb/s@0,20x20Mb/s:100Mb/s@10+client"


@dataclass(frozen=True)
class PeerGroup:
    """Machines that are alike; ``text`` is what the user wrote."""

    text: str
    count: int
    peer: Peer


def peer_groups(text: str) -> list[PeerGroup]:
    """Return the groups in ``text``.

    Raises:
        InvalidJob: one of them cannot be read, or there are more than 1,000 peers.
    """
    groups = [_group(one) for one in text.split(",")]
    peers = sum(group.count for group in groups)
    if peers > MOST_PEERS:
        raise InvalidJob(f"--peers: {peers:,} peers; at most {MOST_PEERS:,} are looked at")
    return groups


def collaboration_of(groups: list[PeerGroup]) -> Collaboration:
    """Return all peers, group by group.

    Raises:
        InvalidJob: they cannot average with each other.
    """
    return Collaboration(tuple(group.peer for group in groups for _ in range(group.count)))


def _group(text: str) -> PeerGroup:
    found = _GROUP.fullmatch(text)
    if found is None:
        raise InvalidJob(f"--peers: {text.strip()!r} is no group of peers; write {_EXAMPLE}")
    upload = rate_of(found["up"])
    speed = None if found["speed"] is None else float(found["speed"])
    peer = Peer(
        upload_bps=upload,
        download_bps=rate_of(found["down"]) if found["down"] else upload,
        computes=speed != 0,
        aggregates=found["client"] is None,
        samples_per_second=speed,
    )
    return PeerGroup(text.strip(), int(found["count"] or 1), peer)
