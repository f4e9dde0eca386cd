"""What a linear rule is told and what it answers: a batch in, a few scalars out.

No tensors here. The coefficients are Python floats (64 bits), because they are written to the
ledger as JSON and read back from it: a replay applies the recorded numbers and needs no rule.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Contribution:
    """One admitted result as a rule sees it; a batch lists them in order of arrival.

    ``staleness`` counts the results that entered the server copy between the version this subtask
    began from and its own merge (inside a batch it grows by one per result).
    """

    epoch: int
    staleness: int
    samples: int


@dataclass(frozen=True)
class Coefficients:
    """Weights of one merge: of the server copy, and of each client copy in the batch's order."""

    server: float
    clients: tuple[float, ...]
