import pytest

from spotgrad.cli.peers import PeerGroup, collaboration_of, peer_groups
from spotgrad.errors import InvalidJob
from spotgrad.planning.averaging import Peer


def test_groups_of_peers() -> None:
    text = "8x1Gb/s, 16 x 200Mb/s@40,500Mb/s @ 0,20x20Mb/s:100Mb/s@10.5+client"
    assert peer_groups(text) == [
        PeerGroup("8x1Gb/s", 8, Peer(1e9, 1e9)),
        PeerGroup("16 x 200Mb/s@40", 16, Peer(2e8, 2e8, samples_per_second=40)),
        PeerGroup("500Mb/s @ 0", 1, Peer(5e8, 5e8, computes=False, samples_per_second=0)),
        PeerGroup(
            "20x20Mb/s:100Mb/s@10.5+client",
            20,
            Peer(2e7, 1e8, aggregates=False, samples_per_second=10.5),
        ),
    ]


def test_a_collaboration_holds_every_peer() -> None:
    made = collaboration_of(peer_groups("2x1Gb/s,3x100Mb/s"))
    assert [one.upload_bps for one in made.peers] == [1e9, 1e9, 1e8, 1e8, 1e8]


@pytest.mark.parametrize(
    "text",
    ["", "8", "8x", "x1Gb/s", "8x1GB/s", "1Gb/s@fast", "1Gb/s+server", "1Gb/s;2Gb/s", "1Gb/s,"],
)
def test_what_is_no_group_is_refused(text: str) -> None:
    with pytest.raises(InvalidJob, match=r"--peers: '.*' is no group of peers; write 8x1Gb/s"):
        peer_groups(text)


def test_very_many_peers_are_refused() -> None:
    assert len(peer_groups("999x1Gb/s,2Gb/s")) == 2
    with pytest.raises(InvalidJob, match="--peers: 1,001 peers; at most 1,000"):
        peer_groups("1000x1Gb/s,2Gb/s")


@pytest.mark.parametrize(
    ("text", "words"), [("0x1Gb/s,1Gb/s", "1 compute"), ("2x0Gb/s", "nothing")]
)
def test_peers_that_cannot_average_are_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidJob, match=words):
        collaboration_of(peer_groups(text))
