"""Compare: how a result of a check stands to those that were heard before. Reads only.

Not what follows from it (``planning.quorum``).
"""

from dataclasses import replace
from math import inf

from spotgrad.merging.agreement import apart
from spotgrad.ports import ObjectReader
from spotgrad.protocol.head import Check
from spotgrad.protocol.keys import ResultKey
from spotgrad.steps.arrival import Arrival
from spotgrad.steps.model_file import ModelReader
from spotgrad.steps.read_results import LoadedResult, load_result


def compared(
    store: ObjectReader, models: ModelReader, check: Check, loaded: LoadedResult
) -> Arrival:
    """Return the arrival with its distance from each opinion; what the gate refuses is far off."""
    found: list[float] = []
    for opinion in check.opinions:
        other = load_result(store, models, ResultKey.parse(opinion.key))
        if other is None:
            return loaded.arrival
        found.append(_apart(loaded, other))
    return replace(loaded.arrival, apart=tuple(found))


def _apart(one: LoadedResult, other: LoadedResult) -> float:
    if one.arrival.problem or other.arrival.problem:
        return inf
    norms = one.arrival.update_norm, other.arrival.update_norm
    return apart(one.tensors, other.tensors, one.roles, update_norms=norms)
