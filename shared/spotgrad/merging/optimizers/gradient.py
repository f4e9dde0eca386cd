"""The gradient of an optimizer step: the weighted sum of what workers sent, and its clipping.

    g = w_1 g_1 + w_2 g_2 + ...,    g <- g min(1, max_grad_norm / (|g| + 1e-6))

Not the step. Which inputs, and how much of each, stand in the numbers: ``gradient/<input>`` holds
one weight. Invariant: terms are added in the order of the numbers, in the dtype of the block. A
number of Python never widens a block: numpy takes it in the dtype of the array that it meets.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotgrad.protocol.recipe import SERVER

Block = NDArray[Any]
Blocks = Mapping[str, Block]
Numbers = Mapping[str, tuple[float, ...]]

GRADIENT = "gradient/"
SQUARES, DIMENSIONS = "squares", "dimensions"
GUARD = 1e-6
"""What ``torch.nn.utils.clip_grad_norm_`` adds to the norm that it divides by."""


def mean(numbers: Numbers, blocks: Blocks) -> Block:
    """Return one block of the gradient, not clipped; zeros where nothing is named."""
    total = np.zeros_like(blocks[SERVER])
    for name, weight in numbers.items():
        if name.startswith(GRADIENT):
            total += blocks[name.removeprefix(GRADIENT)] * weight[0]
    return total


def clipped(numbers: Numbers, blocks: Blocks) -> Block:
    """Return one block of the gradient, as short as ``max_grad_norm`` wants the whole of it."""
    gradient = mean(numbers, blocks)
    if numbers["max_grad_norm"]:
        norm = math.sqrt(numbers[SQUARES][0])
        gradient *= min(1.0, numbers["max_grad_norm"][0] / (norm + GUARD))
    return gradient


def squares(numbers: Numbers, blocks: Blocks) -> Numbers:
    """Measure the gradient of the model, where it is to be clipped."""
    return {SQUARES: (sum_of_squares(mean(numbers, blocks)),)} if numbers["max_grad_norm"] else {}


def sum_of_squares(block: Block) -> float:
    """Return the sum of squares in float64; numpy adds pairwise, in one order everywhere."""
    return float(np.square(block, dtype=np.float64).sum())


def decay_of(numbers: Numbers) -> float:
    """Return the weight decay of the tensor at hand.

    Without ``decay_vectors`` it is 0 for tensors of at most one dimension: biases, and the scales
    of norms.
    """
    spared = numbers[DIMENSIONS][0] <= 1 and not numbers["decay_vectors"][0]
    return 0.0 if spared else numbers["weight_decay"][0]


def state(blocks: Blocks, name: str) -> Block:
    """Return one block of an object that is kept between steps; zeros before the first."""
    return blocks[name] if name in blocks else np.zeros_like(blocks[SERVER])
