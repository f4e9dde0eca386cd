"""Reversed results as a section of the document, from the records of its runs alone."""

from benchmarks.reproduce.poison import EMA, IN_FLIGHT, LENGTH, RULES, SHARES
from benchmarks.reproduce.records import Records
from benchmarks.reproduce.study import Study
from benchmarks.reproduce.tables import percent, table


def poison_section(records: Records, study: Study) -> str:
    """Accuracy at the end, by rule and share of reversed results."""
    rows = records.read("poison")
    lines = [
        [name, *(percent(rows[f"{name} / {share}"]["accuracy"][-1]) for share in SHARES)]
        for name in RULES
    ]
    refused = sum(rows[f"{name} / {share}"]["refused"] for name in RULES for share in SHARES)
    head = ["accuracy at the end, %", *(f"{100 * share:.0f} % reversed" for share in SHARES)]
    return f"""## Workers that send the reverse

Not in the papers. A share of all results goes {LENGTH:g} times as far as the honest update, backwards:
finite, of the right shape, and within the gate's 4 x the largest norm (the gate refused {refused} results in all
these runs). {IN_FLIGHT} subtasks in flight, so windows of {IN_FLIGHT} results; {study.short_epochs} epochs, one seed, everything else as above.
All but `vc-asgd` publish an `ema: {EMA:g}`; `fedbuff` takes the mean of the same windows. At 20 % a window holds more than
two bad results about one time in five, which is more than `trim: 2` and `bad: 2` promise to stand.

{table(head, lines)}
"""
