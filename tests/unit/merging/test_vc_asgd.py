"""VC-ASGD's closed form is its definition, step by step."""

import json
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.merging.vc_asgd import recipe
from spotgrad.protocol.merge import VcAsgd
from tests.unit.merging import trajectory
from tests.unit.merging.plain import Coefficients, coefficients_of, merge_tensors

UNIT_ROUNDOFF_32 = 2.0**-24
EPOCHS = st.lists(st.integers(min_value=1, max_value=40), min_size=1, max_size=64)
ALPHAS = st.one_of(
    st.just("var"), st.floats(min_value=0, max_value=1, exclude_min=True, exclude_max=True)
)

Alpha = float | Literal["var"]
Blend = Callable[[Alpha, Sequence[int], NDArray[Any], Sequence[NDArray[Any]]], NDArray[Any]]


def batch_of(epochs: Sequence[int]) -> list[Contribution]:
    return [Contribution(epoch, staleness, 10) for staleness, epoch in enumerate(epochs)]


def coefficients(merge: VcAsgd, batch: Sequence[Contribution]) -> Coefficients:
    return coefficients_of(recipe(merge, Occasion(), batch))


def in_one_pass(
    alpha: Alpha, epochs: Sequence[int], server: NDArray[Any], clients: Sequence[NDArray[Any]]
) -> NDArray[Any]:
    weights = coefficients(VcAsgd(alpha=alpha), batch_of(epochs))
    return merge_tensors({"w": server}, [{"w": client} for client in clients], weights)["w"]


def one_by_one(
    alpha: Alpha, epochs: Sequence[int], server: NDArray[Any], clients: Sequence[NDArray[Any]]
) -> NDArray[Any]:
    for epoch, client in zip(epochs, clients, strict=True):
        server = in_one_pass(alpha, [epoch], server, [client])
    return server


def exact_weights(alpha: Alpha, epochs: Sequence[int]) -> list[Fraction]:
    """The weights of server and clients after every step of the definition, in fractions."""
    weights = [Fraction(1)]
    for epoch in epochs:
        own = Fraction(epoch, epoch + 1) if alpha == "var" else Fraction(alpha)
        weights = [weight * own for weight in weights] + [1 - own]
    return weights


@pytest.mark.parametrize("blend", [in_one_pass, one_by_one])
def test_alpha_is_the_weight_of_the_server(blend: Blend) -> None:
    merged = blend(0.9, [1], np.zeros(1, np.float32), [np.ones(1, np.float32)])

    assert merged[0] == np.float32(0.1)


@pytest.mark.parametrize(("values", "expected"), [((1, 2, 3), 0.561), ((3, 2, 1), 0.523)])
@pytest.mark.parametrize("blend", [in_one_pass, one_by_one])
def test_order_of_arrival_counts(blend: Blend, values: tuple[int, ...], expected: float) -> None:
    clients = [np.full(1, value, np.float32) for value in values]

    merged = blend(0.9, [1, 1, 1], np.zeros(1, np.float32), clients)

    assert merged[0] == pytest.approx(expected, abs=1e-7)


def test_a_batch_may_mix_epochs() -> None:
    # alphas 1/2, 2/3, 3/4
    found = coefficients(VcAsgd(alpha="var"), batch_of([1, 2, 3]))

    assert found.server == pytest.approx(1 / 4, rel=1e-15)
    assert found.clients == pytest.approx((1 / 4, 1 / 4, 1 / 4), rel=1e-15)


def test_an_empty_batch_leaves_the_server_alone() -> None:
    assert coefficients(VcAsgd(), []) == Coefficients(server=1.0, clients=())


def test_staleness_and_samples_do_not_enter() -> None:
    fresh = [Contribution(1, 0, 1), Contribution(2, 1, 1)]
    stale = [Contribution(1, 70, 999), Contribution(2, 0, 5)]

    assert coefficients(VcAsgd(), fresh) == coefficients(VcAsgd(), stale)


@given(alpha=ALPHAS, epochs=EPOCHS)
def test_the_closed_form_equals_the_steps_in_exact_arithmetic(
    alpha: Alpha, epochs: list[int]
) -> None:
    found = coefficients(VcAsgd(alpha=alpha), batch_of(epochs))

    for weight, wanted in zip(
        (found.server, *found.clients), exact_weights(alpha, epochs), strict=True
    ):
        assert weight == pytest.approx(float(wanted), rel=1e-12, abs=1e-300)


@given(alpha=ALPHAS, epochs=EPOCHS)
def test_coefficients_are_convex(alpha: Alpha, epochs: list[int]) -> None:
    found = coefficients(VcAsgd(alpha=alpha), batch_of(epochs))

    weights = (found.server, *found.clients)
    assert len(found.clients) == len(epochs)
    assert all(0 <= weight <= 1 for weight in weights)
    assert math.fsum(weights) == pytest.approx(1, abs=1e-14)


@given(
    alpha=st.one_of(st.just("var"), st.floats(min_value=0.01, max_value=0.999)),
    epochs=EPOCHS,
    seed=st.integers(min_value=0, max_value=2**32 - 1),
    scale=st.sampled_from([1e-3, 1.0, 1e6]),
)
def test_a_batch_equals_its_single_merges(
    alpha: Alpha, epochs: list[int], seed: int, scale: float
) -> None:
    draw = np.random.default_rng(seed)
    inputs = [(scale * draw.standard_normal(40)).astype(np.float32) for _ in (0, *epochs)]

    batch = in_one_pass(alpha, epochs, inputs[0], inputs[1:]).astype(np.float64)
    singles = one_by_one(alpha, epochs, inputs[0], inputs[1:]).astype(np.float64)

    weights = [float(weight) for weight in exact_weights(alpha, epochs)]
    terms = [w * x.astype(np.float64) for w, x in zip(weights, inputs, strict=True)]
    bound = (len(epochs) + 4) * 2 * UNIT_ROUNDOFF_32 * np.sum(np.abs(terms), axis=0)
    assert np.linalg.norm(batch - singles) <= 1e-6 * np.linalg.norm(np.sum(np.abs(terms), axis=0))
    assert np.all(np.abs(batch - singles) <= bound)
    assert np.all(np.abs(batch - np.sum(terms, axis=0)) <= bound)


@pytest.mark.parametrize("alpha", ["var", 0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("k", [1, 2, 16, 64])
def test_a_batch_of_a_real_sized_tensor_is_within_1e_6_in_relative_l2(alpha: Alpha, k: int) -> None:
    draw = np.random.default_rng(k)
    server = draw.standard_normal(20_000).astype(np.float32)
    clients = [(server + 0.1 * draw.standard_normal(20_000)).astype(np.float32) for _ in range(k)]
    epochs = [1 + place // 8 for place in range(k)]

    batch = in_one_pass(alpha, epochs, server, clients).astype(np.float64)
    singles = one_by_one(alpha, epochs, server, clients).astype(np.float64)

    assert np.linalg.norm(batch - singles) <= 1e-6 * np.linalg.norm(singles)


@pytest.mark.parametrize("name", trajectory.ALPHAS)
def test_the_golden_trajectory_is_followed_bit_for_bit(name: str) -> None:
    golden = json.loads(trajectory.path(name).read_text())

    assert trajectory.document(name) == golden


@pytest.mark.parametrize("name", trajectory.ALPHAS)
def test_the_golden_trajectory_is_right(name: str) -> None:
    golden = json.loads(trajectory.path(name).read_text())["server_after_each_result"]
    wanted = list(trajectory.exact(trajectory.ALPHAS[name]))

    assert len(golden) == len(wanted) == trajectory.EPOCHS * trajectory.SHARDS
    for step, values in zip(golden, wanted, strict=True):
        found = [float.fromhex(value) for value in step]
        assert found == pytest.approx([float(value) for value in values], abs=2e-6)


@pytest.mark.parametrize("name", trajectory.ALPHAS)
def test_one_batch_ends_where_the_golden_trajectory_ends(name: str) -> None:
    golden = json.loads(trajectory.path(name).read_text())["server_after_each_result"]
    epochs, copies = zip(*trajectory.clients(), strict=True)

    merged = in_one_pass(trajectory.ALPHAS[name], epochs, trajectory.first(), copies)

    assert list(merged) == pytest.approx([float.fromhex(value) for value in golden[-1]], abs=2e-6)
