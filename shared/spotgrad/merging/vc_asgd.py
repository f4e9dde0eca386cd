"""VC-ASGD: blend each client copy into the server copy, in order of arrival (Atre et al., 2021).

    W_s <- alpha W_s + (1 - alpha) W_c

A batch of k results is k such steps, folded into one: with a_j the alpha of result j's epoch,

    W_s <- (prod_i a_i) W_s + sum_j (1 - a_j) (prod_{i>j} a_i) W_cj

Staleness and sample counts do not enter. All coefficients are positive and sum to 1 (convex): the
blend stays inside the range of its inputs, so that a running variance cannot turn negative here.
"""

from collections.abc import Sequence

from spotgrad.merging.alpha import alpha_of
from spotgrad.merging.coefficients import Coefficients, Contribution
from spotgrad.protocol.job import VcAsgd


def coefficients(merge: VcAsgd, batch: Sequence[Contribution]) -> Coefficients:
    """Return the closed form for ``batch``; an empty batch leaves the server copy as it is."""
    clients: list[float] = []
    later = 1.0  # prod_{i>j} a_i
    for contribution in reversed(batch):
        alpha = alpha_of(merge.alpha, contribution.epoch)
        clients.append((1.0 - alpha) * later)
        later *= alpha
    return Coefficients(server=later, clients=tuple(reversed(clients)))
