"""The comparison of all rules as a section of the document, from the records of its runs."""

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from benchmarks.reproduce.experiments import IN_FLIGHT, REPEATED, RULES, SEEDS
from benchmarks.reproduce.records import Records
from benchmarks.reproduce.run import seconds_to
from benchmarks.reproduce.study import Study
from benchmarks.reproduce.tables import listed, percent, points, table


def rules_section(records: Records, study: Study) -> str:
    """All rules."""
    rows = records.read("rules")
    alone = rows["single machine"]
    final = table(
        ["accuracy at the end, %", *(f"{each} in flight" for each in IN_FLIGHT)],
        [[name, *(_final(rows, name, each) for each in IN_FLIGHT)] for name in RULES],
    )
    goal = table(
        [f"to {percent(study.goal)} %", *(f"{each} in flight" for each in IN_FLIGHT)],
        [[name, *(_to_goal(rows, name, each, study.goal) for each in IN_FLIGHT)] for name in RULES],
    )
    return f"""## All rules

{study.short_epochs} epochs of {study.shards} subtasks, one seed, one recipe for all (SGD {study.lr:g}, momentum 0.9, reset in every
subtask; not tuned for any of them), everything else at its default. Robust windows (`median` to `centered-clipping`)
are at their smallest with one in flight; nobody sends anything bad here. Rounds (`fedavg`, `diloco`) give the same
model whatever is in flight: their accuracy is of one run, the times are simulated. The single machine comes to {percent(alone["accuracy"][-1])} % in as many epochs, and to
{percent(study.goal)} % in {_epochs(alone, study.goal)}. Differences under half a point are noise.

![accuracy by rule](reproduction/rules.svg)

{final}

Epochs to {percent(study.goal)} %, and in brackets the time in mean durations of a subtask; `-`: not in {study.short_epochs} epochs.

{goal}

{_recommendation(rows, records.read("seeds"))}
"""


def _recommendation(rows: Mapping[str, Any], repeated: Mapping[str, Any]) -> str:
    best = []
    for in_flight in IN_FLIGHT:
        found = {name: rows[f"{name} / {in_flight}"]["accuracy"][-1] for name in RULES}
        three = sorted(found, key=lambda name: -found[name])[:3]
        said = ", ".join(f"`{name}` ({percent(found[name])} %)" for name in three)
        best.append(f"- {in_flight} in flight: {said}")
    means = {name: _mean(rows, repeated, name) for name in REPEATED}
    chosen = max(means, key=lambda name: means[name])
    others = ", ".join(f"`{name}` {percent(means[name])}" for name in REPEATED if name != chosen)
    return "\n".join(
        [
            "Best at the end, seed 0:",
            "",
            *best,
            "",
            *_repeated(rows, repeated),
            f"**Recommended by these runs: `{chosen}`**, the highest mean over 4 and 16 in flight and all seeds:"
            f" {percent(means[chosen])} % ({others}). A small model on small shards for few epochs: it says which rules to"
            " try first, not what a large model will do. `docs/merge-rules.md` names `damped-delta, ema`, which here is"
            f" {points(means[chosen] - means['damped-delta, ema'])} points below the best mean.",
        ]
    )


def _repeated(rows: Mapping[str, Any], repeated: Mapping[str, Any]) -> list[str]:
    if not repeated:
        return []
    lines = [
        [name, *(listed(_finals(rows, repeated, name, each)) for each in IN_FLIGHT[1:])]
        for name in REPEATED
    ]
    head = [
        "accuracy at the end, %, seeds 0, 1, 2",
        *(f"{each} in flight" for each in IN_FLIGHT[1:]),
    ]
    return [table(head, lines), ""]


def _mean(rows: Mapping[str, Any], repeated: Mapping[str, Any], name: str) -> float:
    return fmean(one for each in IN_FLIGHT[1:] for one in _finals(rows, repeated, name, each))


def _finals(
    rows: Mapping[str, Any], repeated: Mapping[str, Any], name: str, in_flight: int
) -> list[float]:
    """Return the accuracy at the end by seed."""
    case = f"{name} / {in_flight}"
    others = [f"{case} / {seed}" for seed in SEEDS]
    made = [rows[case], *(repeated[other] for other in others if other in repeated)]
    return [row["accuracy"][-1] for row in made]


def _final(rows: Mapping[str, Any], name: str, in_flight: int) -> str:
    return percent(rows[f"{name} / {in_flight}"]["accuracy"][-1])


def _to_goal(rows: Mapping[str, Any], name: str, in_flight: int, goal: float) -> str:
    row = rows[f"{name} / {in_flight}"]
    took = seconds_to(goal, row, lambda epoch: float(row["epoch_ends"][epoch - 1]))
    return "-" if took is None else f"{_epochs(row, goal)} ({took:.0f})"


def _epochs(row: Mapping[str, Any], goal: float) -> str:
    epochs = seconds_to(goal, row, float)
    return "more" if epochs is None else f"{epochs:.0f}"
