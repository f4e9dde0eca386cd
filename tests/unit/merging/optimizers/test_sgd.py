"""SGD by the kernel against torch's."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.unit.merging.optimizers.training import (
    STEPS,
    Numbers,
    largest_difference,
    normal,
    parts_of,
    step,
    steps,
    torch_steps,
)

OPTIONS: list[dict[str, Any]] = [
    {},
    {"momentum": 0.9},
    {"momentum": 0.9, "nesterov": True},
    {"weight_decay": 0.1},
    {"momentum": 0.8, "weight_decay": 0.01, "nesterov": True},
]


def told(max_grad_norm: float | None = None, decay_vectors: float = 1.0, **options: Any) -> Numbers:
    """Return what the step is told for these options of torch's."""
    return {
        "lr": (options.get("lr", 0.05),),
        "t": (1.0,),
        "momentum": (options.get("momentum", 0.0),),
        "nesterov": (float(options.get("nesterov", False)),),
        "weight_decay": (options.get("weight_decay", 0.0),),
        "decay_vectors": (decay_vectors,),
        "max_grad_norm": () if max_grad_norm is None else (max_grad_norm,),
    }


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    ("dtype", "max_grad_norm", "bound"),
    [(np.float32, None, 1e-6), (np.float32, 2.0, 1e-6), (np.float64, 1e6, 1e-12)],
)
def test_it_is_torch_s_over_a_hundred_steps(
    options: dict[str, Any], dtype: Any, max_grad_norm: float | None, bound: float
) -> None:
    server = normal(0, dtype)
    ours = steps("sgd", told(max_grad_norm, **options), server, block_bytes=64)
    theirs = torch_steps(
        lambda parameters: torch.optim.SGD(parameters, lr=0.05, **options), server, max_grad_norm
    )
    gaps = [largest_difference(mine["server"], one) for mine, one in zip(ours, theirs, strict=True)]
    assert len(gaps) == STEPS
    assert max(gaps) < bound


def test_without_momentum_there_is_no_state() -> None:
    made = step("sgd", told(), {"server": normal(0)}, parts_of(1))
    assert set(made) == {"server"}


def test_momentum_begins_as_the_gradient() -> None:
    parts = parts_of(1)
    made = step("sgd", told(momentum=0.9), {"server": normal(0)}, parts)
    wanted = {
        name: 0.5 * parts["mean"][name]
        + 0.125 * parts["client-0"][name]
        + 0.375 * parts["client-1"][name]
        for name in parts["mean"]
    }
    assert largest_difference(made["momentum"], wanted) == 0.0


def test_vectors_may_be_spared_from_weight_decay() -> None:
    """A decay of 1 / lr moves what it reaches to zero, and a gradient of zero moves nothing."""
    server = normal(0)
    nothing = {name: normal(0) for name in parts_of(1)}
    for tensors in nothing.values():
        for tensor in tensors.values():
            tensor[...] = 0.0
    made = step(
        "sgd", told(lr=0.5, weight_decay=2.0, decay_vectors=0.0), {"server": server}, nothing
    )
    for name, tensor in made["server"].items():
        wanted = np.zeros_like(tensor) if tensor.ndim > 1 else server[name]
        assert tensor.tolist() == wanted.tolist()
