"""The table of linear merge rules: a new rule is one file beside this one and one line here."""

from collections.abc import Callable, Mapping, Sequence

from spotgrad.merging import vc_asgd
from spotgrad.merging.coefficients import Coefficients, Contribution
from spotgrad.protocol.job import MergeSpec

Rule = Callable[[MergeSpec, Sequence[Contribution]], Coefficients]

RULES: Mapping[str, Rule] = {"vc-asgd": vc_asgd.coefficients}


def decide(merge: MergeSpec, batch: Sequence[Contribution]) -> Coefficients:
    """Return the coefficients that the job's rule gives this batch (in order of arrival)."""
    return RULES[merge.rule](merge, batch)
