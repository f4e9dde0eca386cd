"""Names and files of packed gradients, golden bytes, and what a hostile file is told."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from spotgrad.errors import Malformed
from spotgrad.protocol import tensors as files
from spotgrad.protocol.gradient_codec import decode, encode

CODECS: list[Any] = ["fp32", "fp16", "scaled-fp16", "int8-blockwise"]
GOLDEN = json.loads(
    (Path(__file__).resolve().parents[2] / "golden" / "gradient_codec.json").read_text()
)
Tensors = dict[str, NDArray[Any]]


def gradients() -> Tensors:
    return {
        "layer.weight": np.array([[1.0, -0.5, 0.25], [0.0, 3.0, -2.0]], np.float32),
        "layer.bias": np.array([0.0, np.nan, 1e-7], np.float32),
        "scale": np.array(0.1, np.float32),
    }


def buffers() -> Tensors:
    return {"norm.mean": np.array([0.5, 0.1]), "norm.count": np.array(7)}


@pytest.mark.parametrize("codec", CODECS)
def test_the_bytes_are_what_they_always_were(codec: Any) -> None:
    body = files.encode(encode(gradients(), codec, buffers()), {})
    assert body.hex() == GOLDEN[codec]["file"]
    found = decode(files.decode(body).tensors)
    assert {name: tensor.tobytes().hex() for name, tensor in found.items()} == (
        GOLDEN[codec]["decoded"]
    )


@pytest.mark.parametrize("codec", CODECS)
def test_gradients_are_float32_and_buffers_are_as_they_were(codec: Any) -> None:
    found = decode(encode(gradients(), codec, buffers()))
    assert set(found) == set(gradients()) | set(buffers())
    for name, gradient in gradients().items():
        assert found[name].dtype == np.float32
        assert found[name].shape == gradient.shape
    for name, buffer in buffers().items():
        assert found[name].dtype == buffer.dtype
        assert found[name].tolist() == buffer.tolist()


@given(
    codec=st.sampled_from(CODECS),
    names=st.lists(st.text(max_size=20), unique=True, max_size=8),
    split=st.integers(0, 5),
)
def test_any_names_come_back(codec: Any, names: list[str], split: int) -> None:
    values = {name: np.full(2, n, np.float32) for n, name in enumerate(names)}
    kept = {name: values.pop(name) for name in names[:split]}
    found = decode(encode(values, codec, kept))
    assert {n: t.tolist() for n, t in found.items()} == {
        n: t.tolist() for n, t in (values | kept).items()
    }


@pytest.mark.parametrize("codec", CODECS)
def test_a_parameter_may_be_called_like_another_s_scale(codec: Any) -> None:
    names = ["w", f"{codec}/values/w", f"{codec}/absmax/w", "absmax/w", "as-is/values/w", "/"]
    values = {name: np.full(3, n, np.float32) for n, name in enumerate(names)}
    found = decode(encode(values, codec))
    assert {n: t.tolist() for n, t in found.items()} == {n: t.tolist() for n, t in values.items()}


@pytest.mark.parametrize("codec", CODECS)
def test_nothing_is_a_file_too(codec: Any) -> None:
    assert decode(encode({}, codec)) == {}


def test_an_unknown_codec_is_named() -> None:
    codec: Any = "zip"
    with pytest.raises(Malformed, match=r"codec 'zip' is unknown: expected one of \['fp16'"):
        encode({}, codec)


def test_only_floats_are_gradients() -> None:
    with pytest.raises(Malformed, match="'n' has dtype int64: expected a float"):
        encode({"n": np.array(1)}, "fp16")


def test_a_name_is_a_gradient_or_a_buffer() -> None:
    one = {"w": np.ones(2)}
    with pytest.raises(Malformed, match="'w' is a gradient and a buffer"):
        encode(one, "fp16", one)


def packed(codec: Any) -> Tensors:
    return encode({"w": np.arange(6, dtype=np.float32).reshape(2, 3)}, codec)


def single(*values: float) -> NDArray[Any]:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("codec", "changes", "said"),
    [
        ("fp16", {"w": single(1)}, "'w': expected <codec>/<part>/<name>"),
        ("fp16", {"fp16/w": single(1)}, "'fp16/w': expected <codec>/<part>/<name>"),
        ("fp16", {"fp32/values/v": single(1)}, "codecs 'fp16' and 'fp32' in one file"),
        ("fp16", {"fp16/values/w": None, "zip/values/w": single(1)}, "codec 'zip' is unknown"),
        ("fp16", {"fp16/scale/w": single(1)}, "'w': 'scale' is unknown"),
        ("fp16", {"fp16/values/w": single(1)}, "values has dtype float32: expected float16"),
        ("fp16", {"as-is/values/w": single(1)}, "'w' is a gradient and a buffer"),
        ("fp16", {"as-is/scale/v": single(1)}, "'v': 'scale' is unknown"),
        ("fp32", {"fp32/values/w": np.ones(3)}, "values has dtype float64: expected float32"),
        ("scaled-fp16", {"scaled-fp16/mean/w": None}, "'w': 'mean' is missing"),
        ("scaled-fp16", {"scaled-fp16/values/w": None}, "'w': 'values' is missing"),
        ("scaled-fp16", {"scaled-fp16/mean/w": single(np.nan)}, "'w': mean is not finite"),
        ("scaled-fp16", {"scaled-fp16/deviation/w": single(-1)}, "'w': deviation is negative"),
        (
            "scaled-fp16",
            {"scaled-fp16/mean/w": single(1, 2)},
            r"'w': mean has shape \(2,\): expected \(1,\)",
        ),
        ("int8-blockwise", {"int8-blockwise/absmax/w": None}, "'w': 'absmax' is missing"),
        (
            "int8-blockwise",
            {"int8-blockwise/absmax/w": single(np.inf)},
            "'w': absmax is not finite",
        ),
        ("int8-blockwise", {"int8-blockwise/absmax/w": single(-1)}, "'w': absmax is negative"),
        (
            "int8-blockwise",
            {"int8-blockwise/absmax/w": np.array(1, np.float32)},
            r"'w': absmax has shape \(\): expected \(1,\)",
        ),
        (
            "int8-blockwise",
            {"int8-blockwise/absmax/w": np.ones(1)},
            "'w': absmax has dtype float64: expected float32",
        ),
        (
            "int8-blockwise",
            {"int8-blockwise/values/w": np.ones((2, 3), np.uint8)},
            "'w': values has dtype uint8: expected int8",
        ),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_one_line(
    codec: Any, changes: dict[str, Any], said: str
) -> None:
    tensors = {n: t for n, t in (packed(codec) | changes).items() if t is not None}
    with pytest.raises(Malformed, match=said) as refused:
        decode(tensors)
    assert "\n" not in str(refused.value)


def test_a_long_name_is_cut_short() -> None:
    with pytest.raises(Malformed) as refused:
        decode({"x" * 1_000_000: single(1)})
    assert len(str(refused.value)) < 400


@given(
    st.dictionaries(
        st.tuples(
            st.sampled_from([*CODECS, "as-is", "zip"]),
            st.sampled_from(["values", "mean", "deviation", "absmax", "odd"]),
            st.sampled_from(["v", "w", "a/b"]),
        ).map("/".join)
        | st.text(),
        st.sampled_from(["f2", "f4", "i1", "f8"]).flatmap(
            lambda kind: st.sampled_from(
                [np.zeros(shape, kind) for shape in [(), (1,), (2, 3), (0,), (4097,)]]
            )
        ),
        max_size=4,
    )
)
def test_whatever_a_file_holds_it_is_decoded_or_refused(tensors: Tensors) -> None:
    try:
        found = decode(tensors)
    except Malformed:
        return
    assert len(found) <= len(tensors)
