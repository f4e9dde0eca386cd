import pytest

from spotgrad.errors import Malformed
from spotgrad.protocol.muster import Muster
from tests.fakes.clock import START


def test_a_muster_is_what_it_was() -> None:
    muster = Muster(at=START, workers=4, in_vain=2)
    assert Muster.from_json(muster.to_json()) == muster


def test_there_are_no_fewer_than_no_workers() -> None:
    body = Muster(at=START, workers=0).to_json()
    with pytest.raises(Malformed, match=r"^muster: workers: "):
        Muster.from_json(body.replace(b'"workers":0', b'"workers":-1'))
