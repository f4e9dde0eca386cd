"""What a rule is told: the results at hand, and how the job stands. No tensors, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from spotgrad.protocol.recipe import Closing


@dataclass(frozen=True)
class Contribution:
    """One admitted result as a rule sees it; a batch lists them in order of arrival.

    ``staleness`` counts the results that were merged between the version this subtask began from
    and its own merge (inside a batch it grows by one per result), ``behind`` the versions.
    """

    epoch: int
    staleness: int
    samples: int
    behind: int = 0


@dataclass(frozen=True)
class Occasion:
    """How the job stands before the batch.

    ``in_flight`` is how many subtasks may be out at once (k in the formulas), ``objects`` are those
    the head names (beside the server copy: what earlier recipes wrote), ``tally`` is what the last
    recipe said, and ``last`` says that nothing will be merged after this batch. ``closes`` tells a
    synchronous rule that nothing more will enter its round; the batch may be empty then.
    """

    in_flight: int = 1
    objects: frozenset[str] = frozenset()
    tally: Mapping[str, float] = field(default_factory=dict)
    last: bool = False
    closes: Closing | None = None
