"""Training by the kernel and by torch: the same gradients to both, or each its own.

A step gets its mean gradient in three parts: what was accumulated before, and two clients. Nothing
here asserts.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spotgrad.merging.blocks import BLOCK_BYTES
from spotgrad.merging.kernel import follow
from spotgrad.protocol.recipe import Blend, Recipe

Tensor = NDArray[Any]
Tensors = dict[str, Tensor]
Numbers = Mapping[str, tuple[float, ...]]
Optimizer = Callable[[list[torch.Tensor]], torch.optim.Optimizer]

STEPS = 100
SHAPES: dict[str, tuple[int, ...]] = {
    "scalar": (),
    "bias": (7,),
    "linear": (7, 5),
    "conv": (2, 3, 3, 3),
    "empty": (0, 4),
}
PARTS = {"gradient/mean": (0.5,), "gradient/client-0": (0.125,), "gradient/client-1": (0.375,)}


def normal(seed: int, dtype: Any = np.float32) -> Tensors:
    generator = np.random.default_rng(seed)
    return {n: np.asarray(generator.standard_normal(s), dtype) for n, s in SHAPES.items()}


@cache
def parts_of(seed: int, dtype: Any = np.float32) -> dict[str, Tensors]:
    """Return what a step is made of, by input."""
    inputs = [name.removeprefix("gradient/") for name in PARTS]
    return {name: normal(3 * seed + n, dtype) for n, name in enumerate(inputs)}


def sum_of(parts: Mapping[str, Tensors]) -> Tensors:
    """Return the mean gradient, exactly as the sum is defined."""
    weights = {name.removeprefix("gradient/"): weight for name, (weight,) in PARTS.items()}
    return {
        tensor: np.asarray(sum(parts[name][tensor] * weights[name] for name in parts))
        for tensor in SHAPES
    }


def step(
    function: str,
    numbers: Numbers,
    objects: Mapping[str, Tensors],
    parts: Mapping[str, Tensors],
    block_bytes: int = BLOCK_BYTES,
) -> dict[str, Tensors]:
    """Return server copy and state after one step by the kernel."""
    kept = ["exp_avg", "exp_avg_sq"]
    if function == "sgd":
        kept = ["momentum"] if numbers["momentum"][0] else []
    outputs = {"server": Blend(buffers={"server": 1.0}), **{name: Blend() for name in kept}}
    recipe = Recipe(outputs=outputs, function=function, numbers={**numbers, **PARTS})
    return follow(recipe, {**objects, **parts}, {}, block_bytes=block_bytes)


def steps(
    function: str, numbers: Numbers, server: Tensors, block_bytes: int = BLOCK_BYTES
) -> Iterator[dict[str, Tensors]]:
    """Yield server copy and state after each step by random gradients."""
    objects: dict[str, Tensors] = {"server": server}
    dtype = server["linear"].dtype
    for t in range(1, STEPS + 1):
        told = {**numbers, "t": (float(t),)}
        objects = step(function, told, objects, parts_of(t, dtype), block_bytes)
        yield objects


def torch_steps(
    optimizer: Optimizer, server: Tensors, max_grad_norm: float | None = None
) -> Iterator[Tensors]:
    """Yield the parameters after each step of torch's by the same gradients."""
    parameters = {n: torch.nn.Parameter(torch.tensor(value)) for n, value in server.items()}
    made = optimizer(list(parameters.values()))
    for t in range(1, STEPS + 1):
        gradients = sum_of(parts_of(t, server["linear"].dtype))
        for name, parameter in parameters.items():
            parameter.grad = torch.tensor(gradients[name])
        if max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters.values(), max_grad_norm)
        made.step()
        yield {name: value.detach().numpy().copy() for name, value in parameters.items()}


def largest_difference(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """Return how far any element lies from its twin, beside 1 or the element, if it is larger."""
    gaps = [
        np.max(np.abs(one[name] - other[name]) / np.maximum(1.0, np.abs(other[name])), initial=0.0)
        for name in other
    ]
    return float(max(gaps))
