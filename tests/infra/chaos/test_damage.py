import numpy as np
import pytest

from infra.local.chaos.damage import (
    DAMAGES,
    Damage,
    empty,
    header_garbage,
    huge_number,
    not_a_number,
    truncated,
)
from spotgrad.errors import Malformed
from spotgrad.protocol.tensors import decode, encode

WEIGHTS = {"w": np.arange(1000, dtype=np.float32), "b": np.ones(3, np.float32)}
WHOLE = encode(WEIGHTS, {"spotgrad": "{}"})
PLACES = [0.0, 0.31, 0.999]


@pytest.mark.parametrize("damage", [empty, truncated, header_garbage])
@pytest.mark.parametrize("place", PLACES)
def test_a_broken_file_is_refused_as_a_file(damage: Damage, place: float) -> None:
    with pytest.raises(Malformed):
        decode(damage(WHOLE, place))


@pytest.mark.parametrize("place", PLACES)
def test_one_number_alone_is_overwritten(place: float) -> None:
    for damage, wrong in ((not_a_number, np.isnan), (huge_number, lambda x: x > 1e38)):
        tensors = decode(damage(WHOLE, place)).tensors
        values = np.concatenate([tensors["w"], tensors["b"]])
        assert wrong(values).sum() == 1


def test_a_result_without_tensors_is_truncated() -> None:
    report = encode({}, {"spotgrad": "{}"})
    for damage in (not_a_number, huge_number):
        with pytest.raises(Malformed):
            decode(damage(report, 0.7))


def test_every_damage_is_one() -> None:
    assert len(DAMAGES) == 5
    assert all(damage(WHOLE, place) != WHOLE for damage in DAMAGES for place in PLACES)
