"""The sections of the document, each from the records of its experiment; empty without them."""

from collections.abc import Mapping
from typing import Any

from benchmarks.reproduce.cost import RHOS, WAYS
from benchmarks.reproduce.experiments import ALPHA_FLEET, CORES
from benchmarks.reproduce.preemption import LOSSES, VARIANTS
from benchmarks.reproduce.records import Records
from benchmarks.reproduce.study import Study
from benchmarks.reproduce.tables import percent, points, signed, table

SHOWN_EPOCHS = (1, 2, 5, 10, 20, 40)


def alpha(records: Records, study: Study) -> str:
    """Accuracy by epoch, and its scatter."""
    rows = records.read("alpha")
    epochs = [
        each for each in SHOWN_EPOCHS if all(each <= len(r["accuracy"]) for r in rows.values())
    ]
    accuracy = table(
        ["accuracy, % after epoch", *map(str, epochs)],
        [
            [name, *(percent(row["accuracy"][each - 1]) for each in epochs)]
            for name, row in rows.items()
        ],
    )
    scatter = table(
        ["scatter within epoch, points", *map(str, epochs)],
        [
            [name, *(_scatter(row["within_epoch"][each - 1]) for each in epochs)]
            for name, row in rows.items()
            if "within_epoch" in row
        ],
    )
    return f"""## Accuracy against epoch, by alpha

{ALPHA_FLEET.places} subtasks in flight (5 clients x 2), a barrier after each epoch, `start: live`. The single
machine makes one pass over the same images an epoch, with a learning rate of its own.

![accuracy against epoch](reproduction/alpha.svg)

{accuracy}

The last column is one epoch; the claims above take the mean of the last five. Scatter: the standard deviation of the accuracy after each of the epoch's merges, and its range in
brackets, on {study.glance:,} test images. In early epochs it holds the rise itself too.

{scatter}
"""


def configurations(records: Records, study: Study) -> str:
    """PxCyTz."""
    rows = records.read("configurations")
    here = rows["calibration"]
    made = {name: row for name, row in rows.items() if name != "calibration"}
    shown = table(
        [
            "",
            "places",
            "seconds",
            "of P1C3T2",
            "waited for a server, s",
            "mean staleness",
            "accuracy, %",
        ],
        [_configuration(name, row, made["P1C3T2"]) for name, row in made.items()],
    )
    return f"""## PxCyTz: servers, clients, subtasks at once

Simulated seconds; measured here and put in: a subtask {1000 * here["subtask"]:.1f} ms, a merge {1000 * here["merge"]:.1f} ms
(gate, rule, kernel), an evaluation on {study.glance:,} images after each merge {1000 * here["evaluation"]:.1f} ms. A client has {CORES:.0f}
cores (an assumption: with eight subtasks at once each takes twice as long). {study.short_epochs} epochs, alpha `var`.

![accuracy against time](reproduction/configurations.svg)

{shown}

Where a server is the bottleneck results wait for it, so that staleness grows beyond the number of
places. The paper's figures per configuration are unknown to us. P here is the paper's: servers that take
results from one queue, one at a time, and evaluate after each. The product needs no such servers: a
function merges all results that wait in one pass, and evaluations are subtasks of their own.
"""


def preemption(records: Records, _study: Study) -> str:
    """Minutes by loss."""
    rows = records.read("preemption")
    shown = table(
        ["minutes", *(f"p = {loss:g}" for loss in LOSSES)],
        [
            ["the paper's formula", *(f"{rows[str(loss)]['paper']:.0f}" for loss in LOSSES)],
            ["the exact one", *(f"{rows[str(loss)]['exact']:.0f}" for loss in LOSSES)],
            *(
                [f"simulated: {name}", *(_minutes(rows[str(loss)], name) for loss in LOSSES)]
                for name in VARIANTS
            ),
        ],
    )
    return f"""## Preemption and wall time

The paper's example: 2,000 subtasks, 5 clients x 2, 2.4 minutes a subtask, a deadline of 5.
Formulas: `n (t_e + p t_o)`, and `n (t_e + p/(1-p) t_o)` because what is issued again may be lost
again. Simulated: the mean of {rows["0.0"]["runs"]} runs +- their standard deviation; durations are log-normal with
sigma 0.2. *Timeout*: a lost subtask holds its place until its deadline, as in the paper. *Notice*:
it is given back at the moment when its client is told to go, as the product's workers do; what
they had done by then is lost here (the product keeps that too).

![minutes against p](reproduction/preemption.svg)

{shown}

Both formulas leave out that an epoch waits for its last subtask. With a barrier after each of 40
epochs that is the larger part; a rolling issue, or a notice, takes most of it away.
{_kills(records)}"""


def _kills(records: Records) -> str:
    rows = records.read("kills")
    if not rows:
        return ""
    whole = rows["0.0"]
    lines = [
        [
            f"{float(loss):g}",
            f"{row['attempts']} for {row['subtasks']}",
            str(row["kills"]),
            f"{row['seconds']:.1f}",
            signed(row["seconds"] - whole["seconds"]),
            signed(_formula(float(loss), whole)),
            row["state"],
        ]
        for loss, row in rows.items()
    ]
    head = ["p", "attempts", "workers killed", "seconds", "more", "by the formula", "state"]
    return f"""
Real: the local stack with 2 worker processes, {whole["attempt_seconds"]:.1f} s an attempt (1 s of it is waiting),
workers killed by SIGKILL in the middle of an attempt or as it delivers, each replaced at once; a
lease of 5 s is the deadline. One epoch each, so there is one tail.

{table(head, lines)}

The formula's column is `n p/(1-p) t_o` with n subtasks per worker. That it comes near is no proof of it: a
place here does not wait for the deadline, as replacements take other subtasks meanwhile. What a kill
costs is the attempt's work, the start of a new process and, at the end, the wait for the last lease:
{_per_kill(rows)} seconds of one worker's time on this machine.
"""


def _per_kill(rows: Mapping[str, Any]) -> str:
    whole = rows["0.0"]["seconds"]
    struck = [row for row in rows.values() if row["kills"]]
    return ", ".join(f"{2 * (row['seconds'] - whole) / row['kills']:.1f}" for row in struck)


def _formula(loss: float, whole: Mapping[str, Any]) -> float:
    return float(whole["subtasks"] / 2 * loss / (1 - loss) * 5.0)


def cost(records: Records, _study: Study) -> str:
    """Dollars."""
    rows = records.read("cost")
    paper = rows["paper"]
    parts = []
    for way in WAYS:
        lines = [
            [f"{loss:g}", *(_dollars(rows[f"{way} / {loss} / {rho}"]) for rho in RHOS)]
            for loss in LOSSES
        ]
        parts.append(table([f"{way}: p", *(f"rho = {rho:g}" for rho in RHOS)], lines))
    return f"""## Cost

At the paper's prices, {paper["hours"]:.0f} hours of five instances: ${paper["on_demand"]:.2f} on demand, ${paper["spot"]:.2f} at 70 % off
(${paper["on_demand_per_hour"]:.3f} and ${paper["spot_per_hour"]:.3f} an hour). The server is not in it, neither there nor here.

For the same job with losses: dollars, and in brackets what is saved against the same fleet on demand
without losses, in percent. rho is the Spot price over the on-demand price; every client is paid for
from beginning to end.

{parts[0]}

{parts[1]}
"""


def _scatter(row: Mapping[str, float]) -> str:
    return f"{points(row['deviation'])} ({percent(row['low'])} to {percent(row['high'])})"


def _configuration(name: str, row: Mapping[str, Any], first: Mapping[str, Any]) -> list[str]:
    return [
        name,
        str(row["in_flight"]),
        f"{row['seconds']:.2f}",
        f"{row['seconds'] / first['seconds']:.2f}",
        f"{row['waited_seconds']:.1f}",
        f"{row['mean_staleness']:.1f}",
        percent(row["accuracy"][-1]),
    ]


def _minutes(row: Mapping[str, Any], name: str) -> str:
    found = row["simulated"][name]
    return f"{found['mean']:.0f} +- {found['deviation']:.0f}"


def _dollars(row: Mapping[str, float]) -> str:
    return f"{row['dollars']:.2f} ({percent(row['saved'])})"
