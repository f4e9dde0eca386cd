from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from spotgrad.errors import Malformed
from spotgrad.protocol.partial import PartialMetadata, Position, read_partial, write_partial
from spotgrad.protocol.result import HEADER, Base
from spotgrad.protocol.tensors import encode

STATE = {"lr": 0.1 + 0.2, "steps": [1, None, True, "x"], "tiny": 5e-324, "big": 2**62}
METADATA = PartialMetadata(
    job="digits",
    run="00000001",
    epoch=2,
    subtask="train-000003",
    attempt="deadbeef",
    worker="w",
    base=Base(version=4, commit="cafe0123", results_merged=9),
    code_sha256=None,
    position=Position(passes=1, batches=2, steps=7),
    state=STATE,
)
TENSORS: dict[str, NDArray[Any]] = {
    "w": np.arange(6, dtype="f4").reshape(2, 3).T,
    "half": np.array([1.5, -0.0], ml_dtypes.bfloat16),
    "step": np.array(7.0, "f4"),
    "none": np.zeros((0, 3), "i8"),
}
BODY = write_partial(METADATA, TENSORS)


def test_a_partial_is_read_back_bit_for_bit() -> None:
    partial = read_partial(BODY)
    assert partial.metadata == METADATA
    assert partial.metadata.state == STATE
    assert partial.tensors.keys() == TENSORS.keys()
    for name, array in TENSORS.items():
        assert partial.tensors[name].dtype == array.dtype
        assert partial.tensors[name].shape == array.shape
        assert partial.tensors[name].tobytes() == array.tobytes()


@given(place=st.integers(0, len(BODY) - 1), flip=st.integers(1, 255))
def test_one_other_byte_anywhere_is_noticed(place: int, flip: int) -> None:
    damaged = bytearray(BODY)
    damaged[place] ^= flip
    with pytest.raises(Malformed):
        read_partial(bytes(damaged))


@pytest.mark.parametrize("kept", [0, 7, len(BODY) // 2, len(BODY) - 1])
def test_a_truncated_partial_is_refused(kept: int) -> None:
    with pytest.raises(Malformed):
        read_partial(BODY[:kept])


@pytest.mark.parametrize("header", [{}, METADATA.to_header(), {HEADER: "{}", "sha256": "00"}])
def test_a_file_without_a_seal_is_refused(header: dict[str, str]) -> None:
    with pytest.raises(Malformed, match="it is damaged"):
        read_partial(encode(TENSORS, header))


def test_positions_are_ordered_by_passes_then_batches() -> None:
    rows = [(0, 9), (1, 0), (1, 3), (2, 0)]
    found = [Position(passes=passes, batches=batches, steps=0).order for passes, batches in rows]
    assert found == sorted(found)
    assert len(set(found)) == len(found)
