"""LAMB by the kernel against algorithm 2 of You et al. (2019), in float64, by its letters."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.unit.merging.optimizers.training import (
    STEPS,
    Numbers,
    Tensor,
    Tensors,
    largest_difference,
    normal,
    parts_of,
    step,
    steps,
    sum_of,
)


def told(**options: Any) -> Numbers:
    numbers: dict[str, tuple[float, ...]] = {
        "lr": (0.01,),
        "t": (1.0,),
        "betas": (0.9, 0.999),
        "eps": (1e-6,),
        "weight_decay": (0.01,),
        "decay_vectors": (1.0,),
        "bias_correction": (1.0,),
        "clamp": (10_000.0,),
        "max_grad_norm": (),
    }
    return numbers | {name: np.atleast_1d(value).tolist() for name, value in options.items()}


def algorithm_2(numbers: Numbers, server: Tensors) -> Iterator[Tensors]:
    """Yield x after each step, by the paper's letters; i is a tensor, phi is min(., clamp)."""
    eta, epsilon, lam = (numbers[name][0] for name in ("lr", "eps", "weight_decay"))
    beta_1, beta_2 = numbers["betas"]
    x = {i: value.astype(np.float64) for i, value in server.items()}
    m = {i: np.zeros_like(value) for i, value in x.items()}
    v = {i: np.zeros_like(value) for i, value in x.items()}
    for t in range(1, STEPS + 1):
        g = clip({i: value.astype(np.float64) for i, value in summed(t).items()}, numbers)
        for i in x:
            m[i] = beta_1 * m[i] + (1 - beta_1) * g[i]
            v[i] = beta_2 * v[i] + (1 - beta_2) * g[i] ** 2
            m_hat, v_hat = m[i], v[i]
            if numbers["bias_correction"][0]:
                m_hat, v_hat = m[i] / (1 - beta_1**t), v[i] / (1 - beta_2**t)
            r = m_hat / (np.sqrt(v_hat) + epsilon)
            decays = x[i].ndim > 1 or numbers["decay_vectors"][0]
            u = r + lam * x[i] if decays else r
            phi = min(float(np.sqrt((x[i] ** 2).sum())), numbers["clamp"][0])
            norm = float(np.sqrt((u**2).sum()))
            x[i] = x[i] - eta * (phi / norm if phi > 0 and norm > 0 else 1.0) * u
        yield {i: value.copy() for i, value in x.items()}


def summed(t: int) -> Tensors:
    return sum_of(parts_of(t))


def clip(g: Tensors, numbers: Numbers) -> Tensors:
    if not numbers["max_grad_norm"]:
        return g
    norm = float(np.sqrt(sum(float((one**2).sum()) for one in g.values())))
    return {i: one * min(1.0, numbers["max_grad_norm"][0] / (norm + 1e-6)) for i, one in g.items()}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight_decay": 0.0},
        {"decay_vectors": 0.0, "weight_decay": 0.3},
        {"max_grad_norm": 1.0},
        {"clamp": 0.5},
        {"bias_correction": 0.0},
        {"betas": (0.8, 0.95), "eps": 1e-3},
    ],
)
def test_it_is_algorithm_2_over_a_hundred_steps(options: dict[str, Any]) -> None:
    numbers, server = told(**options), normal(0)
    ours = steps("lamb", numbers, server, block_bytes=64)
    theirs = algorithm_2(numbers, server)
    gaps = [largest_difference(mine["server"], one) for mine, one in zip(ours, theirs, strict=True)]
    assert len(gaps) == STEPS
    assert max(gaps) < 3e-6  # float32 against float64


def test_float64_tensors_are_float64_throughout() -> None:
    numbers, server = told(max_grad_norm=1.0), normal(0, np.float64)
    parts = parts_of(1)
    made = step("lamb", numbers, {"server": server}, parts)
    assert made["exp_avg"]["linear"].dtype == np.float64
    wanted = next(algorithm_2(numbers, server))
    assert largest_difference(made["server"], wanted) < 1e-7  # the gradients are float32 here


def moved(server: Tensor, gradient: Tensor, **options: Any) -> Tensor:
    """Return how far one step moves a matrix."""
    like = np.float32
    inputs = {name: {"w": gradient.astype(like)} for name in parts_of(1)}
    objects = {"server": {"w": server.astype(like)}}
    made = step("lamb", told(**options), objects, inputs)["server"]["w"]
    return np.asarray(made - objects["server"]["w"])


def test_a_step_is_as_long_as_the_rate_times_the_weights() -> None:
    server, gradient = normal(0)["linear"], normal(1)["linear"]
    length = float(np.linalg.norm(moved(server, gradient)))
    assert length == pytest.approx(0.01 * float(np.linalg.norm(server)), rel=1e-5)


def test_the_clamp_bounds_the_step() -> None:
    server, gradient = 100.0 * normal(0)["linear"], normal(1)["linear"]
    length = float(np.linalg.norm(moved(server, gradient, clamp=5.0)))
    assert length == pytest.approx(0.01 * 5.0, rel=1e-3)  # a weight's ulp is 8e-6


def test_weights_of_zero_move_by_adam_s_direction() -> None:
    gradient = normal(1)["linear"]
    change = moved(np.zeros_like(gradient), gradient)
    assert np.abs(change + 0.01 * gradient / (np.abs(gradient) + 1e-6)).max() < 1e-7


def test_where_nothing_pushes_nothing_moves() -> None:
    server = normal(0)["linear"]
    assert not moved(server, np.zeros_like(server), weight_decay=0.0).any()


def test_a_step_has_the_same_bits_at_any_block_size() -> None:
    made = [
        step("lamb", told(max_grad_norm=1.0), {"server": normal(0)}, parts_of(1), block_bytes=size)
        for size in (8, 64, 4096)
    ]
    for name in ("server", "exp_avg", "exp_avg_sq"):
        bits = {tuple(t.tobytes() for t in one[name].values()) for one in made}
        assert len(bits) == 1
