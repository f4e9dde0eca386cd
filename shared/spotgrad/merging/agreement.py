"""Whether two results of one subtask, trained from the same version, say the same.

    |x - y| / max(|u_x|, |u_y|)        over all float parameters; u is a result's update

0 for equal results, about 1 for one that did nothing or anything else, 2 for one that points the
other way. Not who is right (``planning.quorum``).
"""

from collections.abc import Mapping
from math import inf

from spotgrad.merging.admission import Tensors, distance
from spotgrad.protocol.result import Role


def apart(
    one: Tensors, other: Tensors, roles: Mapping[str, Role], *, update_norms: tuple[float, float]
) -> float:
    """Return how far two results are apart, in lengths of the longer update."""
    length, away = max(update_norms), distance(one, other, roles)
    if length == 0:
        return 0.0 if away == 0 else inf
    return away / length
