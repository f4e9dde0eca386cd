"""The two running moments of a gradient that AdamW and LAMB share (Kingma and Ba, 2015).

    m <- m + (1 - beta_1) (g - m),    v <- beta_2 v + (1 - beta_2) g g
    m^ = m / (1 - beta_1^t),          v^ = v / (1 - beta_2^t)

The objects ``exp_avg`` and ``exp_avg_sq`` are m and v, named and rounded as torch does it.
"""

from typing import NamedTuple

from spotgrad.merging.optimizers.gradient import Block, Blocks, Numbers, clipped, state

FIRST, SECOND = "exp_avg", "exp_avg_sq"


class Moments(NamedTuple):
    """One block of m and v."""

    first: Block
    second: Block

    @property
    def objects(self) -> dict[str, Block]:
        """Return what is kept until the next step."""
        return {FIRST: self.first, SECOND: self.second}


def moments(numbers: Numbers, blocks: Blocks) -> Moments:
    """Return one block of both moments after this step's gradient."""
    gradient = clipped(numbers, blocks)
    beta_1, beta_2 = numbers["betas"]
    first, second = state(blocks, FIRST), state(blocks, SECOND)
    return Moments(
        first + (1.0 - beta_1) * (gradient - first),
        beta_2 * second + (1.0 - beta_2) * gradient * gradient,
    )


def corrections(numbers: Numbers) -> tuple[float, float]:
    """Return what m and v are divided by: both begin at zero and are too small at first."""
    beta_1, beta_2 = numbers["betas"]
    t = numbers["t"][0]
    return 1.0 - beta_1**t, 1.0 - beta_2**t
