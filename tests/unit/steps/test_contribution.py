"""A gradient as a rule wants it, and what the gate says of one."""

from typing import Any

import numpy as np
import pytest

from spotgrad.errors import Malformed
from spotgrad.protocol.codecs import Codec
from spotgrad.protocol.gradient_codec import encode
from spotgrad.protocol.result import Base, Initialized, ResultMetadata, Role, Trained
from spotgrad.protocol.tensors import TensorFile
from spotgrad.steps.contribution import contribution, inspect_gradient
from tests.builders import JOB, RUN

ROLES: dict[str, Role] = {
    "weight": "parameter",
    "twin": "alias",
    "frozen": "frozen",
    "mean": "buffer",
    "count": "buffer",
}
VERSION: dict[str, Any] = {
    "weight": np.ones((2, 3), np.float64),
    "twin": np.ones((2, 3), np.float64),
    "frozen": np.ones(4, np.float32),
    "mean": np.zeros(2, np.float32),
    "count": np.array(3, np.int64),
}


def gradient(value: float = 0.5) -> dict[str, Any]:
    whole = np.full((2, 3), value, np.float32)
    return {"weight": whole, "twin": whole, "mean": np.ones(2, np.float32), "count": np.array(4)}


def said(codec: Codec | None) -> ResultMetadata:
    base = Base(version=1, commit=RUN, results_merged=1)
    outcome = Trained(base=base, samples=7, gradient=codec, roles=ROLES)
    return ResultMetadata(
        job=JOB,
        run=RUN,
        epoch=1,
        subtask="train-000000",
        attempt=RUN,
        worker="w",
        outcome=outcome,
    )


@pytest.mark.parametrize("codec", ["fp32", "fp16", "scaled-fp16", "int8-blockwise"])
def test_a_gradient_is_decoded(codec: Codec) -> None:
    names = ("weight", "twin")
    buffers = {name: one for name, one in gradient().items() if name not in names}
    packed = encode({name: gradient()[name] for name in names}, codec, buffers)
    found = contribution(said(codec), TensorFile(packed, {}))
    assert found.keys() == gradient().keys()
    for name, tensor in gradient().items():
        assert found[name].dtype == tensor.dtype
        np.testing.assert_allclose(found[name], tensor, rtol=1e-2)


def test_what_is_no_gradient_is_taken_as_it_is() -> None:
    file = TensorFile(gradient(), {})
    assert contribution(said(None), file) is file.tensors
    first = said(None).model_copy(update={"outcome": Initialized(roles=ROLES)})
    assert contribution(first, file) is file.tensors


def test_a_gradient_that_is_not_encoded_as_it_says_is_refused() -> None:
    with pytest.raises(Malformed):
        contribution(said("int8-blockwise"), TensorFile(gradient(), {}))


def test_its_norm_is_that_of_each_parameter_once() -> None:
    found = inspect_gradient(VERSION, ROLES, gradient(), 7)
    assert found.problem is None
    assert found.update_norm == pytest.approx(0.5 * 6**0.5)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"weight": None}, "'weight' is missing"),
        ({"frozen": np.ones(4, np.float32)}, "'frozen' is unknown"),
        ({"weight": np.ones((3, 2), np.float32)}, "shape"),
        ({"weight": np.full((2, 3), np.nan, np.float32)}, "nan"),
        ({"mean": np.full(2, np.inf, np.float32)}, "inf"),
        ({"count": np.array(4.0, np.float32)}, "dtype"),
    ],
)
def test_the_gate_names_what_is_wrong(change: dict[str, Any], problem: str) -> None:
    odd = {name: one for name, one in (gradient() | change).items() if one is not None}
    found = inspect_gradient(VERSION, ROLES, odd, 7)
    assert problem in str(found.problem)


def test_a_gradient_of_no_samples_is_refused() -> None:
    assert "samples" in str(inspect_gradient(VERSION, ROLES, gradient(), 0).problem)
