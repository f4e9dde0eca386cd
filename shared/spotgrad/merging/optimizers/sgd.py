"""SGD with momentum: what ``torch.optim.SGD`` does, dampening 0.

    g <- g + lambda W;    v <- mu v + g
    W <- W - lr v,   or with Nesterov   W <- W - lr (g + mu v)

The object ``momentum`` is v; without momentum there is none.
"""

from spotgrad.merging.optimizers.gradient import Blocks, Numbers, clipped, decay_of, state
from spotgrad.protocol.recipe import SERVER

NAME, MOMENTUM = "sgd", "momentum"


def step(numbers: Numbers, blocks: Blocks) -> Blocks:
    """Return one block of the server copy and, where there is momentum, of v."""
    server, momentum = blocks[SERVER], numbers["momentum"][0]
    gradient = clipped(numbers, blocks)
    if decay := decay_of(numbers):
        gradient += decay * server
    if not momentum:
        return {SERVER: server - numbers["lr"][0] * gradient}
    velocity = momentum * state(blocks, MOMENTUM) + gradient
    push = gradient + momentum * velocity if numbers["nesterov"][0] else velocity
    return {SERVER: server - numbers["lr"][0] * push, MOMENTUM: velocity}
