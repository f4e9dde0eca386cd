"""Lost subtasks and wall time: the paper's formula, the exact one, and the simulator.

The paper's example: 2,000 subtasks on 5 clients of 2 places, 2.4 minutes each, a deadline of 5.
Minutes throughout. No training: time is all that is asked for.
"""

from collections.abc import Iterator
from statistics import fmean, stdev
from typing import Any, Final

from benchmarks.reproduce.fleet import Fleet, Recovery
from benchmarks.reproduce.simulator import Clockwork, Plan, simulate

LOSSES: Final = (0.0, 0.05, 0.1, 0.2)
SUBTASK, TIMEOUT = 2.4, 5.0
CLIENTS, AT_ONCE = 5, 2
EPOCHS, SHARDS = 40, 50
SEEDS: Final = 20

VARIANTS: Final[dict[str, tuple[str, Recovery]]] = {
    "no epochs, timeout": ("one", "timeout"),
    "barrier, timeout": ("barrier", "timeout"),
    "rolling, timeout": ("rolling", "timeout"),
    "barrier, notice": ("barrier", "notice"),
    "rolling, notice": ("rolling", "notice"),
}
"""How subtasks go out, and how a lost one comes back; ``one`` is a single epoch of all of them."""


def paper(loss: float) -> float:
    """Return n (t_e + p t_o), n = n_s / (n_c n_tc)."""
    return _chain() * (SUBTASK + loss * TIMEOUT)


def exact(loss: float) -> float:
    """Return n (t_e + p/(1-p) t_o): what is issued again may be lost again."""
    return _chain() * (SUBTASK + loss / (1 - loss) * TIMEOUT)


def preemption(seeds: int = SEEDS) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield, per loss probability, both formulas and the mean of the simulated minutes."""
    for loss in LOSSES:
        simulated = {name: _simulated(loss, *how, seeds) for name, how in VARIANTS.items()}
        formulas = {"paper": paper(loss), "exact": exact(loss)}
        yield str(loss), {**formulas, "simulated": simulated, "runs": seeds}


def _simulated(loss: float, issue: str, recovery: Recovery, seeds: int) -> dict[str, float]:
    fleet = Fleet(
        clients=CLIENTS,
        subtasks_per_client=AT_ONCE,
        subtask_seconds=SUBTASK,
        timeout_seconds=TIMEOUT,
        loss=loss,
        recovery=recovery,
    )
    plan = Plan(1, EPOCHS * SHARDS)
    if issue != "one":
        plan = Plan(EPOCHS, SHARDS, "rolling" if issue == "rolling" else "barrier")
    minutes = [simulate(plan, fleet, Clockwork(), seed=seed).seconds for seed in range(seeds)]
    return {"mean": fmean(minutes), "deviation": stdev(minutes)}


def _chain() -> float:
    return EPOCHS * SHARDS / (CLIENTS * AT_ONCE)
