"""AdamW by the kernel against torch's, with random gradients and in training."""

from typing import Any

import numpy as np
import pytest
import torch

from spotgrad.merging.kernel import follow
from spotgrad.protocol.recipe import Blend, Recipe
from tests.unit.merging.optimizers.training import (
    STEPS,
    Numbers,
    Tensors,
    largest_difference,
    normal,
    parts_of,
    step,
    steps,
    torch_steps,
)

OPTIONS: list[dict[str, Any]] = [
    {"weight_decay": 0.0},
    {"weight_decay": 0.1},
    {"betas": (0.8, 0.95), "eps": 1e-4},
]


def told(max_grad_norm: float | None = None, decay_vectors: float = 1.0, **options: Any) -> Numbers:
    """Return what the step is told for these options of torch's."""
    return {
        "lr": (options.get("lr", 0.003),),
        "t": (1.0,),
        "betas": options.get("betas", (0.9, 0.999)),
        "eps": (options.get("eps", 1e-8),),
        "weight_decay": (options.get("weight_decay", 0.01),),
        "decay_vectors": (decay_vectors,),
        "max_grad_norm": () if max_grad_norm is None else (max_grad_norm,),
    }


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    ("dtype", "max_grad_norm", "bound"),
    [(np.float32, None, 1e-6), (np.float32, 1.0, 1e-6), (np.float64, 1.0, 1e-12)],
)
def test_it_is_torch_s_over_a_hundred_steps(
    options: dict[str, Any], dtype: Any, max_grad_norm: float | None, bound: float
) -> None:
    server = normal(0, dtype)
    ours = steps("adamw", told(max_grad_norm, **options), server, block_bytes=64)
    theirs = torch_steps(
        lambda parameters: torch.optim.AdamW(parameters, lr=0.003, **options), server, max_grad_norm
    )
    gaps = [largest_difference(mine["server"], one) for mine, one in zip(ours, theirs, strict=True)]
    assert len(gaps) == STEPS
    assert max(gaps) < bound


def test_two_trainings_end_at_the_same_parameters() -> None:
    """Each by its own gradients: what differs once would differ more with every step."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 2))
    model.double()
    inputs, targets = torch.randn(32, 6).double(), torch.randn(32, 2).double()
    server = {n: p.detach().numpy().copy() for n, p in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.autograd.backward(torch.nn.functional.mse_loss(model(inputs), targets))
        optimizer.step()
    theirs = {n: p.detach().numpy().copy() for n, p in model.named_parameters()}

    assert largest_difference(trained(model, server, inputs, targets), theirs) < 1e-9
    assert largest_difference(server, theirs) > 0.1


def trained(
    model: torch.nn.Module, server: Tensors, inputs: torch.Tensor, targets: torch.Tensor
) -> Tensors:
    """Return the parameters after a hundred steps of the kernel's."""
    objects: dict[str, Tensors] = {"server": server}
    outputs = {"server": Blend(buffers={}), "exp_avg": Blend(), "exp_avg_sq": Blend()}
    for t in range(1, STEPS + 1):
        model.load_state_dict({n: torch.tensor(value) for n, value in objects["server"].items()})
        model.zero_grad()
        torch.autograd.backward(torch.nn.functional.mse_loss(model(inputs), targets))
        client = {n: p.grad.numpy() for n, p in model.named_parameters() if p.grad is not None}
        numbers = {**told(lr=0.01), "t": (float(t),), "gradient/client-0": (1.0,)}
        recipe = Recipe(outputs=outputs, function="adamw", numbers=numbers)
        objects = follow(recipe, {**objects, "client-0": client}, {})
    return objects["server"]


def test_a_step_has_the_same_bits_at_any_block_size() -> None:
    made = [
        step("adamw", told(1.0), {"server": normal(0)}, parts_of(1), block_bytes=size)
        for size in (8, 64, 4096)
    ]
    for name in ("server", "exp_avg", "exp_avg_sq"):
        bits = {tuple(t.tobytes() for t in one[name].values()) for one in made}
        assert len(bits) == 1


def test_vectors_may_be_spared_from_weight_decay() -> None:
    """A decay of 1 / lr moves what it reaches to zero, and a gradient of zero moves nothing."""
    server = normal(0)
    nothing = {name: {n: np.zeros_like(t) for n, t in server.items()} for name in parts_of(1)}
    numbers = told(lr=0.5, weight_decay=2.0, decay_vectors=0.0)
    made = step("adamw", numbers, {"server": server}, nothing)
    for name, tensor in made["server"].items():
        wanted = np.zeros_like(tensor) if tensor.ndim > 1 else server[name]
        assert tensor.tolist() == wanted.tolist()
