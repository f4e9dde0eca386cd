"""AdamW: what ``torch.optim.AdamW`` does (Loshchilov and Hutter, 2019, arXiv 1711.05101).

    W <- W - lr lambda W;    W <- W - lr m^ / (sqrt(v^) + eps)

Weight decay is decoupled: it never enters the moments.
"""

import math

import numpy as np

from spotgrad.merging.optimizers.gradient import Blocks, Numbers, decay_of
from spotgrad.merging.optimizers.moments import corrections, moments
from spotgrad.protocol.recipe import SERVER

NAME = "adamw"


def step(numbers: Numbers, blocks: Blocks) -> Blocks:
    """Return one block of the server copy and of both moments."""
    kept, (of_first, of_second) = moments(numbers, blocks), corrections(numbers)
    lr, eps = numbers["lr"][0], numbers["eps"][0]
    root = np.sqrt(kept.second) / math.sqrt(of_second) + eps
    server = blocks[SERVER] * (1.0 - lr * decay_of(numbers))
    return {SERVER: server - lr / of_first * kept.first / root, **kept.objects}
