from spotgrad.cli.estimate_document import Averaging
from spotgrad.cli.peers import peer_groups
from spotgrad.planning.step_time import Exchange


def test_peers_belong_to_groups() -> None:
    groups = peer_groups("2x1Gb/s,100Mb/s,2x10Mb/s")
    averaging = Averaging(groups, Exchange(1), [], None)
    assert [averaging.group_of(place).text for place in range(5)] == [
        *("2x1Gb/s", "2x1Gb/s", "100Mb/s", "2x10Mb/s", "2x10Mb/s")
    ]
    assert averaging.by_group((0.1, 0.2, 0.3, 0.4, 0.0)) == [(0.1, 0.2), (0.3,), (0.4, 0.0)]
