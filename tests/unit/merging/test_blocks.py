"""Blocks cover a tensor once, in C order, and are all that is ever copied."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotgrad.errors import Unsupported
from spotgrad.merging.blocks import flat, kind_of, spans


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        (np.float64, "float"),
        (np.float32, "float"),
        (np.float16, "float"),
        (ml_dtypes.bfloat16, "float"),
        (np.int64, "integer"),
        (np.uint8, "integer"),
        (np.bool_, "boolean"),
    ],
)
def test_kinds(dtype: Any, kind: str) -> None:
    assert kind_of("w", np.dtype(dtype)) == kind


@pytest.mark.parametrize("dtype", [np.complex64, ml_dtypes.float8_e4m3fn, np.dtype("U3")])
def test_another_dtype_is_refused_by_name(dtype: Any) -> None:
    with pytest.raises(Unsupported, match=rf"tensor 'fc\.w' has dtype {np.dtype(dtype)}: expected"):
        kind_of("fc.w", np.dtype(dtype))


@given(size=st.integers(0, 200), length=st.integers(1, 50))
def test_spans_cover_every_element_once_and_in_order(size: int, length: int) -> None:
    found = list(spans(size, length))

    assert [place for span in found for place in range(size)[span]] == list(range(size))
    assert all(0 < span.stop - span.start <= length for span in found)


def test_a_contiguous_tensor_is_viewed() -> None:
    tensor = np.arange(6.0).reshape(2, 3)

    assert np.shares_memory(flat(tensor), tensor)


@pytest.mark.parametrize(
    "tensor",
    [
        np.arange(24).reshape(4, 6).T,
        np.arange(24).reshape(4, 6)[::-1, ::2],
        np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1),
        np.array(7),
        np.empty((0, 3)),
    ],
)
def test_slices_follow_the_c_order(tensor: np.ndarray[Any, Any]) -> None:
    wanted = tensor.flatten()

    for span in spans(tensor.size, 5):
        assert flat(tensor)[span].tolist() == wanted[span].tolist()
