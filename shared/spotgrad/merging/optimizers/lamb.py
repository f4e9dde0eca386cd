"""LAMB: Adam's direction, as long as each tensor deserves (You et al., 2019, arXiv 1904.00962).

    r = m^ / (sqrt(v^) + eps),    u = r + lambda W                     algorithm 2
    W <- W - lr phi(|W|) / |u| u,    phi(z) = min(z, clamp)            tensor by tensor

The trust ratio phi(|W|) / |u| is 1 where either norm is 0. Where the paper says layer this says
tensor, vectors included, as all implementations do. The clamp of 10 000 is that of hivemind.
``bias_correction: (0,)`` takes m and v as they are.
"""

import math

import numpy as np

from spotgrad.merging.optimizers.gradient import Block, Blocks, Numbers, decay_of, sum_of_squares
from spotgrad.merging.optimizers.moments import Moments, corrections, moments
from spotgrad.protocol.recipe import SERVER

NAME, NORMS = "lamb", "norms"


def norms(numbers: Numbers, blocks: Blocks) -> Numbers:
    """Measure |W| and |u| of a tensor, both squared."""
    _, update = _direction(numbers, blocks)
    return {NORMS: (sum_of_squares(blocks[SERVER]), sum_of_squares(update))}


def step(numbers: Numbers, blocks: Blocks) -> Blocks:
    """Return one block of the server copy and of both moments."""
    kept, update = _direction(numbers, blocks)
    rate = numbers["lr"][0] * trust_ratio(numbers)
    return {SERVER: blocks[SERVER] - rate * update, **kept.objects}


def trust_ratio(numbers: Numbers) -> float:
    """Return phi(|W|) / |u| of the tensor at hand."""
    weights, update = (math.sqrt(squares) for squares in numbers[NORMS])
    return min(weights, numbers["clamp"][0]) / update if weights and update else 1.0


def _direction(numbers: Numbers, blocks: Blocks) -> tuple[Moments, Block]:
    """Return one block of both moments and of u."""
    kept = moments(numbers, blocks)
    of_first, of_second = corrections(numbers) if numbers["bias_correction"][0] else (1.0, 1.0)
    adam = kept.first / of_first / (np.sqrt(kept.second / of_second) + numbers["eps"][0])
    decay = decay_of(numbers)
    return kept, adam + decay * blocks[SERVER] if decay else adam
