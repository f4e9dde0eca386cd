"""What a fleet costs: the paper's prices, and other Spot prices with losses.

    dollars = clients x price x rho x hours(p),    saved = 1 - rho hours(p) / hours(0)

rho is Spot over on-demand. All clients are paid for as long as the job takes, the waits for
deadlines included; the server, storage and requests are not in it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from benchmarks.reproduce.preemption import CLIENTS

PRICE: Final = 0.3328
"""Dollars an hour of a t3.2xlarge on demand: five make the paper's $1.67 an hour."""
PAPER_RHO: Final = 0.3
RHOS: Final = (0.1, 0.2, 0.3, 0.4)
WAYS: Final = ("barrier, timeout", "rolling, notice")


def cost(preemption: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the paper's own sum, then dollars and saving by p, rho and way of recovery."""
    hours = preemption["0.0"]["paper"] / 60
    demand = CLIENTS * PRICE
    yield (
        "paper",
        {
            "hours": hours,
            "on_demand_per_hour": demand,
            "spot_per_hour": demand * PAPER_RHO,
            "on_demand": demand * hours,
            "spot": demand * PAPER_RHO * hours,
        },
    )
    for way in WAYS:
        whole = preemption["0.0"]["simulated"][way]["mean"] / 60
        for loss, row in preemption.items():
            took = row["simulated"][way]["mean"] / 60
            for rho in RHOS:
                dollars = demand * rho * took
                saved = 1 - dollars / (demand * whole)
                yield f"{way} / {loss} / {rho}", {"dollars": dollars, "saved": saved, "hours": took}
