"""What each codec does to the numbers: error bounds, extremes, and what is not finite."""

import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from spotgrad.protocol.gradient_packing import PACKINGS, Packing

Tensor = NDArray[Any]
LARGEST = float(np.finfo(np.float32).max)
TINY = 2.0**-140  # where float32 has hardly a digit left
FINITE: st.SearchStrategy[float] = st.floats(
    width=32, allow_nan=False, allow_infinity=False
) | st.sampled_from([0.0, -0.0, 1e-45, -1e-40, 65_504.0, 65_520.0, LARGEST, -LARGEST])
ODD: st.SearchStrategy[float] = FINITE | st.sampled_from([np.nan, np.inf, -np.inf])
SHAPES = array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5) | st.sampled_from(
    [(64,), (2, 70), (4097,), (2, 0, 80)]
)


def tensors(elements: st.SearchStrategy[float]) -> st.SearchStrategy[Tensor]:
    return arrays(np.float32, SHAPES, elements=elements)


def bound(codec: str, x: Tensor, parts: dict[str, Tensor], packing: Packing) -> Tensor:
    """Return by how much each finite element may be off, at the most."""
    rounded = np.abs(x) * 2.0**-23 + TINY  # what comes back is float32
    if codec == "fp32":
        return np.zeros_like(x)
    if codec == "fp16":
        return np.maximum(np.abs(x) * 2.0**-11, 2.0**-25)
    row = np.arange(x.size).reshape(x.shape) // max(1, packing.row(x.shape))
    if codec == "int8-blockwise":
        return parts["absmax"][row] / 254.0 + rounded
    mean, deviation = parts["mean"][row], parts["deviation"][row].astype(np.float64)
    return np.asarray(np.abs(x - mean) * 2.0**-11 + deviation * 2.0**-25 + rounded)


@pytest.mark.parametrize("codec", sorted(PACKINGS))
@settings(max_examples=40)
@given(tensor=tensors(FINITE))
def test_a_finite_number_comes_back_near_itself(codec: str, tensor: Tensor) -> None:
    packing = PACKINGS[codec]
    parts = packing.pack(tensor)
    back = packing.unpack(parts)
    x = tensor.astype(np.float64)
    if codec == "fp16":
        x = np.clip(x, -65_504.0, 65_504.0)
    assert back.dtype == np.float32
    assert back.shape == tensor.shape
    assert (np.abs(back - x) <= bound(codec, x, parts, packing)).all()


@pytest.mark.parametrize("codec", sorted(PACKINGS))
@settings(max_examples=40)
@given(tensor=tensors(ODD))
def test_what_is_not_finite_stays_so_and_spoils_nothing_else(codec: str, tensor: Tensor) -> None:
    packing = PACKINGS[codec]
    parts = packing.pack(tensor)
    back, finite = packing.unpack(parts), np.isfinite(tensor)
    assert (np.isfinite(back) == finite).all()
    assert all(np.isfinite(parts[name]).all() for name in packing.beside)
    mended = packing.unpack(packing.pack(np.where(finite, tensor, 0)))
    if codec != "scaled-fp16":  # where the mean is another
        assert (back[finite] == mended[finite]).all()


@pytest.mark.parametrize("codec", sorted(PACKINGS))
@settings(max_examples=40)
@given(tensor=tensors(ODD))
def test_beside_the_values_lies_one_number_per_row(codec: str, tensor: Tensor) -> None:
    packing = PACKINGS[codec]
    parts = packing.pack(tensor)
    assert set(parts) == {"values", *packing.beside}
    assert (parts["values"].dtype, parts["values"].shape) == (packing.values, tensor.shape)
    for name in packing.beside:
        assert parts[name].dtype == np.float32
        assert parts[name].shape == (packing.rows(tensor.shape),)


@pytest.mark.parametrize("codec", sorted(PACKINGS))
@pytest.mark.parametrize(
    "shape", [(3, 100_000), (2, 300_000), (1_000, 300), (1_000, 300, 1), (5, 3, 0)]
)
def test_tensors_longer_than_a_span(codec: str, shape: tuple[int, ...]) -> None:
    packing = PACKINGS[codec]
    generator = np.random.default_rng(1)
    tensor = (generator.standard_normal(shape) * 10.0 ** generator.integers(-3, 3, shape)).astype(
        np.float32
    )
    parts = packing.pack(tensor)
    x = tensor.astype(np.float64)
    off = np.abs(packing.unpack(parts) - x)
    assert (off <= bound(codec, x, parts, packing)).all()


@pytest.mark.parametrize("codec", sorted(PACKINGS))
def test_zeros_come_back_as_zeros(codec: str) -> None:
    packing = PACKINGS[codec]
    assert not packing.unpack(packing.pack(np.zeros((65, 70), np.float32))).any()


@pytest.mark.parametrize("codec", sorted(PACKINGS))
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64, ">f4"])
def test_any_float_and_any_memory_layout_is_read_by_value(codec: str, dtype: Any) -> None:
    packing = PACKINGS[codec]
    plain = np.arange(-160, 160).reshape(4, 80).astype(np.float32)
    strided = np.repeat(plain, 2, axis=0)[::2].astype(dtype)
    for tensor in (strided, np.asfortranarray(strided)):
        assert packing.unpack(packing.pack(tensor)).tolist() == (
            packing.unpack(packing.pack(plain)).tolist()
        )


@pytest.mark.parametrize("codec", sorted(PACKINGS))
def test_beyond_float32_is_the_largest_float32(codec: str) -> None:
    packing = PACKINGS[codec]
    tensor = np.array([1e300, -1e300, 0.0])
    wanted = 65_504.0 if codec == "fp16" else LARGEST
    back = packing.unpack(packing.pack(tensor))
    assert back.tolist() == pytest.approx([wanted, -wanted, 0.0], rel=1e-3)
    assert np.isfinite(back).all()


def test_last_axes_are_normalised_by_themselves_from_64_on() -> None:
    packing = PACKINGS["scaled-fp16"]
    assert packing.rows((7, 5, 64)) == 35
    assert packing.rows((7, 5, 63)) == 1
    assert packing.rows(()) == 1
    assert packing.rows((0, 64)) == 0


def test_normalised_halves_keep_what_plain_halves_lose() -> None:
    small = np.random.default_rng(2).standard_normal((4, 64)).astype(np.float32) * np.float32(1e-9)
    found = {name: PACKINGS[name].unpack(PACKINGS[name].pack(small)) for name in PACKINGS}
    assert not found["fp16"].any()
    assert np.abs(found["scaled-fp16"] - small).max() < 2e-12


def test_eight_bits_are_rounded_to_the_nearest_of_255() -> None:
    packing = PACKINGS["int8-blockwise"]
    parts = packing.pack(np.array([127.0, -127.0, 0.4, 0.6, -1.0, np.nan], np.float32))
    assert parts["values"].tolist() == [127, -127, 0, 1, -1, -128]
    assert parts["absmax"].tolist() == [127.0]


def test_a_hostile_deviation_makes_no_number_of_infinity() -> None:
    zero = np.zeros(1, np.float32)
    values: Tensor = np.array([np.inf, 1], np.float16)
    parts = {"values": values, "mean": zero, "deviation": zero}
    assert np.isfinite(PACKINGS["scaled-fp16"].unpack(parts)).tolist() == [False, True]


@pytest.mark.parametrize("codec", sorted(PACKINGS))
def test_no_temporary_of_a_tensor_s_size(codec: str) -> None:
    packing = PACKINGS[codec]
    tensor = np.ones((8, 1_000_000), np.float32)
    parts = packing.pack(tensor)
    tracemalloc.start()
    packing.unpack(parts)
    _, unpacking = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    packing.pack(tensor)
    _, packed = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert unpacking < tensor.nbytes + 24e6
    assert packed < tensor.nbytes + 24e6
