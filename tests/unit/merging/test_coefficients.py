"""Coefficients survive the ledger: JSON gives back the same 64 bits."""

import json

from hypothesis import given
from hypothesis import strategies as st

from spotgrad.merging.coefficients import Coefficients

WEIGHTS = st.floats(min_value=0, max_value=1)


@given(server=WEIGHTS, clients=st.lists(WEIGHTS))
def test_json_keeps_every_bit(server: float, clients: list[float]) -> None:
    before = Coefficients(server=server, clients=tuple(clients))

    text = json.dumps({"server": before.server, "clients": before.clients})
    after = json.loads(text)

    assert Coefficients(after["server"], tuple(after["clients"])) == before
