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

from spotgrad.merging import (
    damped_delta,
    dc_asgd,
    delayed_nesterov,
    delta,
    diloco,
    easgd,
    fedasync,
    fedavg,
    fedbuff,
    vc_asgd,
)
from spotgrad.merging.ema import with_ema
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.job import JobSpec
from spotgrad.protocol.merge import Rule
from spotgrad.protocol.recipe import EMA, SERVER, Recipe

RuleFunction = Callable[[Any, Occasion, Sequence[Contribution]], Recipe]

RULES: Mapping[str, RuleFunction] = {
    "vc-asgd": vc_asgd.recipe,
    "fedasync": fedasync.recipe,
    "easgd": easgd.recipe,
    "delta": delta.recipe,
    "dc-asgd": dc_asgd.recipe,
    "damped-delta": damped_delta.recipe,
    "delayed-nesterov": delayed_nesterov.recipe,
    "fedbuff": fedbuff.recipe,
    "fedavg": fedavg.recipe,
    "diloco": diloco.recipe,
}


def decide(spec: JobSpec, occasion: Occasion, batch: Sequence[Contribution]) -> Recipe:
    """Return what the job's rule makes of a batch, in order of arrival.

    It is empty only where a synchronous round closes without a result.

    Raises:
        ValueError: the rule has no answer to this batch.
    """
    recipe = RULES[spec.merge.rule](spec.merge, occasion, batch)
    decay = spec.merge.ema
    return recipe if decay is None else with_ema(recipe, decay, occasion, len(batch))


def first_objects(merge: Rule) -> tuple[str, ...]:
    """Return the objects that version 0 consists of: each a copy of the initial parameters."""
    return (SERVER,) if merge.ema is None else (SERVER, EMA)
