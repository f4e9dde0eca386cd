"""The weight of the SERVER copy, as the epoch of a result has earned it (Atre et al., 2021).

``var`` starts at 1/2 and trusts the server more with every epoch. Which epoch counts is the
result's own, so that one batch may mix epochs.
"""

from typing import Literal


def alpha_of(alpha: float | Literal["var"], epoch: int) -> float:
    """Return the weight of the server copy, between 0 and 1, for a result of ``epoch``.

    Raises:
        ValueError: ``epoch`` is below 1 (epoch 0 is ``initialize``, which nothing is merged into).
    """
    if epoch < 1:
        raise ValueError(f"epoch {epoch} has no alpha: training epochs count from 1")
    if alpha == "var":
        return epoch / (epoch + 1)
    return alpha
