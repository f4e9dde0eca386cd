"""The table of merge rules, and how to add one.

A rule is one file beside this one. It takes its own section of the job file, the occasion and the
batch (in order of arrival), and returns a ``Recipe``: numbers, never tensors.

1. Its parameters: a model in ``protocol/merge.py``, and a member of the union there.
2. Its file, with ``recipe(merge, occasion, batch)``, and one line in ``RULES``. Linear formulas are
   written with ``combination``; whatever is remembered between two batches goes into an object of
   its own (an output of the recipe; absent means zeros) or, a number, into ``tally``.
3. Where it is not linear: a block function in the same file, and one line in ``functions.py``.
4. A golden trajectory, a property test, a paragraph in ``docs/merge-rules.md``.

The commit, the ledger, replay and audit follow from the recipe; they know no rule.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spotgrad.merging import vc_asgd
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.job import JobSpec
from spotgrad.protocol.recipe import Recipe

RuleFunction = Callable[[Any, Occasion, Sequence[Contribution]], Recipe]

RULES: Mapping[str, RuleFunction] = {"vc-asgd": vc_asgd.recipe}


def decide(spec: JobSpec, occasion: Occasion, batch: Sequence[Contribution]) -> Recipe:
    """Return what the job's rule makes of a batch (not empty, in order of arrival).

    Raises:
        ValueError: the rule has no answer to this batch.
    """
    return RULES[spec.merge.rule](spec.merge, occasion, batch)
