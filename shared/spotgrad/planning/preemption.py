"""What preemption costs: a subtask's expected latency, and when the last of many is done.

``p`` is the probability that one run of a subtask is cut off by preemption, ``t_e`` how long a run
takes. The formulas were checked against an event simulation (the tests have one). Expectations
alone; not what the pipeline does about it (``leases``, ``stragglers``). All times are in seconds.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

MOST_PREEMPTION: Final = 0.9
"""Above that nearly every run is lost, and nothing here says anything useful."""
_NEGLIGIBLE: Final = 1e-9
_GRID: Final = 2000


def lost_runs(p: float) -> float:
    """Return how many runs of one subtask are lost before one is not: ``p / (1 - p)``."""
    return p / (1 - p)


def interruptions(p: float) -> float:
    """Return how many preemptions fall into one run's worth of time: ``ln(1 / (1 - p))``."""
    return -math.log1p(-p)


def job_by_the_paper(sequential: float, t_e: float, p: float, t_o: float) -> float:
    """Return VC-ASGD's estimate of a job's time: ``n (t_e + p t_o)``.

    ``n`` is the number of subtasks that a slot works through, and each loss holds its slot up for
    the deadline ``t_o``. Losses of runs that repeat a lost one are left out.
    """
    return sequential * (t_e + p * t_o)


def job_exactly(sequential: float, t_e: float, p: float, t_o: float) -> float:
    """Return the same, with a repeated run as likely to be lost: ``n (t_e + t_o p / (1 - p))``."""
    return sequential * latency_by_deadline(t_e, p, t_o)


def latency_by_deadline(t_e: float, p: float, t_o: float) -> float:
    """Return a subtask's time when a lost run is noticed ``t_o`` after it began."""
    return t_e + t_o * lost_runs(p)


def latency_given_back(t_e: float, p: float) -> float:
    """Return a subtask's time when a run that is cut off is given back at once, its work lost."""
    return latency_by_deadline(t_e, p, t_e / 2)


def latency_drained(t_e: float, p: float, notice: float) -> float:
    """Return a subtask's time when a run is finished if it fits the notice, else given back."""
    cut = p * unfinished(t_e, notice)
    return t_e + (t_e - min(notice, t_e)) / 2 * lost_runs(cut)


def latency_resumed(t_e: float, p: float, restore: float, every: float = 0.0) -> float:
    """Return a subtask's time when a run goes on where a checkpoint, or a notice, left it.

    ``every``: the time between checkpoints; 0 when what was done is saved at the notice.
    """
    return t_e + interruptions(p) * (every / 2 + restore)


def unfinished(t_e: float, notice: float) -> float:
    """Return the share of preemptions that come when a run has more left than the notice."""
    return max(0.0, 1 - notice / t_e)


def last_done(starts: Sequence[tuple[float, int]], t_e: float, p: float, delay: float) -> float:
    """Return when the last of many subtasks is expected to be done.

    ``E max_i (u_i + t_e + delay * G_i)``, with ``G_i`` geometric: how often subtask i is lost. An
    epoch with a barrier waits for that, so the mean latency times N / S is too low.

    Args:
        starts: when subtasks begin for the first time, and how many do so then.
        t_e: how long a run takes that is not lost.
        p: the probability that a run is lost.
        delay: from the beginning of a lost run to that of the next.
    """
    ends = [(begin + t_e, count) for begin, count in starts]
    latest = max(end for end, _ in ends)
    if p == 0 or delay == 0:
        return latest
    subtasks = sum(count for _, count in ends)
    most = math.ceil(math.log(_NEGLIGIBLE / subtasks) / math.log(p))
    ends = [(end, count) for end, count in ends if latest - end <= most * delay]
    step = most * delay / _GRID
    at = latest + step * (np.arange(_GRID) + 0.5)
    log_done = np.zeros(_GRID)
    for end, count in ends:
        log_done += count * np.log1p(-(p ** (np.floor((at - end) / delay) + 1)))
    return latest + float(np.sum(-np.expm1(log_done)) * step)
