"""DC-ASGD: add each update, corrected to first order for its staleness (Zheng et al., 2017).

    g = W_start - W_c
    W <- W - eta [ g + lambda g g (W - W_start) ]                        element by element

The paper's g is a gradient; ours is a whole subtask's update, in its place. Adaptive: lambda is
lambda_0 / sqrt(MS + 1e-7) with MS <- decay MS + (1 - decay) g g, which is the object ``square``.
Not linear, so the recipe leaves the parameters to ``correct``, one block at a time.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotgrad.merging.convex import alphas_by_staleness, server_blend
from spotgrad.merging.delta import eta_of
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.merge import DcAsgd
from spotgrad.protocol.recipe import SERVER, Blend, Recipe, base, client

NAME, SQUARE = "dc-asgd", "square"
EPSILON = 1e-7
CONSTANT, ADAPTIVE = 0.04, 2.0  # the paper's lambda on CIFAR-10


def recipe(merge: DcAsgd, occasion: Occasion, batch: Sequence[Contribution]) -> Recipe:
    """Return the numbers for ``correct``; float buffers blend by staleness."""
    usual = ADAPTIVE if merge.adaptive else CONSTANT
    correction = usual if merge.correction is None else merge.correction
    numbers = {
        "results": (float(len(batch)),),
        "eta": (eta_of(merge, occasion),),
        "lambda": (correction,),
        "decay": (merge.decay,) if merge.adaptive else (),
    }
    outputs = {SERVER: server_blend(merge, None, alphas_by_staleness(batch))}
    if merge.adaptive:
        outputs[SQUARE] = Blend()
    return Recipe(outputs=outputs, function=NAME, numbers=numbers, from_bases=True)


def correct(
    numbers: Mapping[str, tuple[float, ...]], blocks: Mapping[str, NDArray[Any]]
) -> Mapping[str, NDArray[Any]]:
    """Return one block of the server copy and, where adaptive, of the mean square."""
    server = blocks[SERVER].copy()
    square = blocks.get(SQUARE, np.zeros_like(server))
    one = server.dtype.type
    eta, strength, decay = one(numbers["eta"][0]), one(numbers["lambda"][0]), numbers["decay"]
    for number in range(int(numbers["results"][0])):
        start = blocks[base(number)]
        gradient = start - blocks[client(number)]
        if decay:
            fresh = one(1.0 - decay[0]) * (gradient * gradient)
            square = one(decay[0]) * square + fresh
            bend = one(strength) / np.sqrt(square + one(EPSILON)) * gradient * gradient
        else:
            bend = strength * gradient * gradient
        server -= eta * (gradient + bend * (server - start))
    return {SERVER: server, SQUARE: square} if decay else {SERVER: server}
