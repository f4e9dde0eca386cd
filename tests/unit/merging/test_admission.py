"""What the gate lets in, and how it words what it keeps out."""

import tracemalloc
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from spotgrad.merging.admission import Inspection, admit, admit_loss, inspect, remember
from spotgrad.protocol.result import Role

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
ROLES: Mapping[str, Role] = {
    "w": "parameter",
    "head": "frozen",
    "bn.running_mean": "buffer",
    "bn.num_batches_tracked": "buffer",
}
Tensors = dict[str, NDArray[Any]]


def model(**changes: NDArray[Any]) -> Tensors:
    return {
        "w": np.zeros((2, 3), np.float32),
        "head": np.zeros(2, np.float32),
        "bn.running_mean": np.zeros(2, np.float32),
        "bn.num_batches_tracked": np.array(7),
    } | changes


def problem_of(client: Tensors, samples: Any = 90) -> str | None:
    return inspect(model(), model(), client, ROLES, samples).problem


def test_a_good_result_brings_the_norm_of_its_parameters_alone() -> None:
    client = model(w=np.array([[3, 0, 0], [0, 4, 0]], np.float32), head=np.full(2, 50, np.float32))
    client["bn.running_mean"] = np.full(2, 100, np.float32)
    client["bn.num_batches_tracked"] = np.array(17)

    assert inspect(model(), model(), client, ROLES, 90) == Inspection(None, 5.0)


def test_the_norm_is_taken_from_the_start_and_not_from_the_server() -> None:
    server, start = model(w=np.full((2, 3), 9, np.float32)), model()

    found = inspect(server, start, model(w=np.full((2, 3), 2, np.float32)), ROLES, 1)

    assert found.update_norm == pytest.approx(2 * 6**0.5, rel=1e-15)


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16])
def test_a_16_bit_copy_of_a_float32_tensor_is_welcome(dtype: Any) -> None:
    client = model(w=np.full((2, 3), 0.5, dtype))

    found = inspect(model(), model(), client, ROLES, 1)

    assert found.problem is None
    assert found.update_norm == pytest.approx(0.5 * 6**0.5, rel=1e-15)


def test_the_norm_does_not_overflow_where_float32_would() -> None:
    client = model(w=np.full((2, 3), 3e38, np.float32))

    found = inspect(model(), model(), client, ROLES, 1)

    assert found.update_norm == pytest.approx(float(np.float32(3e38)) * 6**0.5)


def test_a_norm_beyond_float64_is_a_problem_and_not_a_number() -> None:
    roles: Mapping[str, Role] = {"w": "parameter"}
    start, client = {"w": np.zeros(3)}, {"w": np.full(3, 1e200)}

    found = inspect(start, start, client, roles, 1)

    assert found == Inspection("the update's norm is inf: expected a finite number", None)


def test_integer_parameters_have_no_norm() -> None:
    roles: Mapping[str, Role] = {"w": "parameter"}

    found = inspect({"w": np.arange(3)}, {"w": np.arange(3)}, {"w": np.arange(1, 4)}, roles, 1)

    assert found == Inspection(None, 0.0)


@pytest.mark.parametrize("transposed", [False, True])
def test_the_norm_of_a_long_tensor_is_exact_and_takes_no_copy(transposed: bool) -> None:  # noqa: FBT001 - a parameter of the test
    roles: Mapping[str, Role] = {"w": "parameter"}
    draw = np.random.default_rng(3)
    start, client = (draw.standard_normal((2000, 1000)).astype(np.float32) for _ in range(2))
    wanted = float(np.linalg.norm(client.astype(np.float64) - start.astype(np.float64)))
    if transposed:
        start, client = start.T, client.T

    tracemalloc.start()
    found = inspect({"w": start}, {"w": start}, {"w": client}, roles, 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert found.update_norm == pytest.approx(wanted, rel=1e-13)
    assert peak < 4 * 262_144


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["w", "head", "bn.running_mean"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16])
def test_a_value_that_is_not_finite_is_named(name: str, value: float, dtype: Any) -> None:
    tensor = model()[name].astype(dtype)
    tensor.reshape(-1)[1] = value

    found = problem_of(model() | {name: tensor})

    assert found == f"tensor '{name}' holds {value} at element 1: expected finite values"


def test_a_nan_in_the_last_block_is_found_where_it_is() -> None:
    tensor = np.zeros(100_003, np.float64)
    tensor[100_001] = np.nan

    found = inspect(None, None, {"w": tensor}, {"w": "parameter"}, 1)

    assert found.problem == "tensor 'w' holds nan at element 100001: expected finite values"


def test_a_missing_tensor() -> None:
    client = model()
    del client["head"]

    assert problem_of(client) == "tensor 'head' is missing: expected shape (2,) of float32"


def test_a_tensor_that_the_server_does_not_have() -> None:
    client = model(extra=np.zeros(1))

    assert problem_of(client) == "tensor 'extra' is unknown: expected the server's 4 tensors"


@pytest.mark.parametrize("shape", [(3, 2), (6,), (1, 3), ()])
def test_another_shape(shape: tuple[int, ...]) -> None:
    found = problem_of(model(w=np.zeros(shape, np.float32)))

    assert found == f"tensor 'w' has shape {shape}: expected (2, 3)"


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("w", np.float64, "float32, bfloat16 or float16"),
        ("w", np.int32, "float32, bfloat16 or float16"),
        ("bn.num_batches_tracked", np.int32, "int64"),
        ("bn.num_batches_tracked", np.float16, "int64"),
    ],
)
def test_another_dtype(name: str, dtype: Any, expected: str) -> None:
    found = problem_of(model() | {name: model()[name].astype(dtype)})

    assert found == f"tensor '{name}' has dtype {np.dtype(dtype)}: expected {expected}"


def test_a_tensor_without_a_role_would_escape_the_norm() -> None:
    roles: Mapping[str, Role] = {name: role for name, role in ROLES.items() if name != "w"}

    found = inspect(model(), model(), model(), roles, 1)

    assert found.problem == "tensor 'w' has no role: expected one for each tensor"


@pytest.mark.parametrize("samples", [0, -1, True, 90.0, None, float("nan"), "90"])
def test_samples_that_are_not_a_positive_integer(samples: Any) -> None:
    assert problem_of(model(), samples) == f"samples is {samples!r}: expected a positive integer"


def test_the_first_version_need_only_be_finite() -> None:
    assert inspect(None, None, model(), {}, 0) == Inspection(None, None)


def test_a_first_version_with_a_nan_is_refused() -> None:
    found = inspect(None, None, model(head=np.array([0, np.nan], np.float32)), {}, 0)

    assert found.problem == "tensor 'head' holds nan at element 1: expected finite values"


def test_a_first_version_that_could_never_be_merged_is_refused() -> None:
    found = inspect(None, None, {"w": np.zeros(2, np.complex64)}, {"w": "parameter"}, 0)

    assert found.problem is not None
    assert found.problem.startswith("tensor 'w' has dtype complex64: expected bool, an integer,")


def test_the_eighth_result_is_not_measured_and_the_ninth_is() -> None:
    assert admit(1e9, [1.0] * 7) is None
    assert admit(1e9, [1.0] * 8) is not None


def test_exactly_four_times_the_largest_is_admitted() -> None:
    norms = [0.5] * 7 + [2.0]

    assert admit(8.0, norms) is None
    assert admit(np.nextafter(8.0, 9.0), norms) is not None


def test_the_reason_names_both_norms() -> None:
    assert admit(12.5, [3.0, *[1.0] * 9]) == (
        "the update's norm is 12.5: expected at most 12 (4 x the largest of the last 10 accepted)"
    )


def test_only_the_last_fifty_count() -> None:
    assert admit(5.0, [100.0, *[1.0] * 50]) is not None
    assert admit(5.0, [100.0, *[1.0] * 49]) is None


def test_a_run_that_has_not_moved_yet_refuses_nothing() -> None:
    assert admit(3.0, [0.0] * 20) is None


@given(st.lists(st.floats(min_value=0, max_value=1e6), max_size=120))
def test_remember_keeps_the_last_fifty_in_order(norms: list[float]) -> None:
    kept: tuple[float, ...] = ()
    for norm in norms:
        kept = remember(kept, norm)

    assert kept == tuple(norms[-50:])


@pytest.mark.parametrize(("norm", "admitted"), [(4.0, True), (4.1, False)])
def test_the_median_rule_begins_with_the_third_result(norm: float, *, admitted: bool) -> None:
    assert admit(1e9, [1.0], "median") is None
    assert (admit(norm, [1.0, 1.0, 9.0], "median") is None) is admitted


@pytest.mark.parametrize(
    ("second", "believed"), [(10.0, True), (5.0, True), (20.0, True), (20.1, False), (4.9, False)]
)
def test_a_second_opinion_agrees_within_a_factor_of_two(second: float, *, believed: bool) -> None:
    accepted = [1.0] * 3
    assert admit(10.0, accepted, "median") is not None
    assert (admit(second, accepted, "median", (10.0,)) is None) is believed


def test_the_largest_rule_takes_no_second_opinion() -> None:
    assert admit(10.0, [1.0] * 8, "largest", (10.0,)) is not None
    assert admit(10.0, [1.0] * 8, "off") is None


def test_a_loss_is_measured_against_the_median_of_those_accepted() -> None:
    losses = [0.2, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 9.0]
    assert admit_loss(0.57, losses) is None
    assert admit_loss(0.571, losses) == (
        "its loss on held-out samples is 0.571: expected at most 0.57 "
        "(1.3 x the median of the last 8 accepted, 0.4, + 0.05)"
    )
    assert admit_loss(100.0, losses[:7]) is None
    assert admit_loss(None, []) is not None
