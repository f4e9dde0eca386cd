from spotgrad.merging.easgd import recipe
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.merge import Easgd


def test_each_result_pulls_by_beta_over_k_whatever_its_staleness() -> None:
    batch = [Contribution(1, staleness, 1) for staleness in (0, 30)]
    found = recipe(Easgd(rule="easgd", beta=0.5), Occasion(in_flight=2), batch)
    assert found.weights("server") == {"server": 0.5625, "client-0": 0.1875, "client-1": 0.25}
