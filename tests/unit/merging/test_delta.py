import pytest

from spotgrad.merging.delta import eta_of, recipe
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.merge import Delta


@pytest.mark.parametrize(("k", "eta"), [(1, 1.0), (2, 0.5), (16, 0.0625)])
def test_left_out_eta_is_1_over_k(k: int, eta: float) -> None:
    assert eta_of(Delta(rule="delta"), Occasion(in_flight=k)) == eta
    assert eta_of(Delta(rule="delta", eta=0.01), Occasion(in_flight=k)) == 0.01


def test_every_update_is_added_however_stale() -> None:
    batch = [Contribution(1, staleness, 10) for staleness in (0, 9)]
    weights = recipe(Delta(rule="delta", eta=0.25), Occasion(), batch).weights("server")
    assert weights == {
        "server": 1.0,
        "client-0": 0.25,
        "client-1": 0.25,
        "base-0": -0.25,
        "base-1": -0.25,
    }
