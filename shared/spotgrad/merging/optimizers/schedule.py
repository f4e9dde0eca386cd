"""The learning rate of an optimizer step, from its number alone: constant, linear or cosine.

    t <= W:       start + (peak - start) t / W                             warm-up, W steps
    W < t <= T:   floor + (peak - floor) f(p),   p = (t - W) / (T - W)
    linear (ALBERT): f = 1 - p,    cosine (SwAV): f = (1 + cos pi p) / 2

Steps are optimizer steps from 1, never local ones: the schedule does not know how many workers
there are. It is continuous, reaches its peak at step W and its floor at step T, and stays there.
"""

import math

from spotgrad.protocol.optimizer import RateSchedule


def learning_rate(peak: float, schedule: RateSchedule, t: int) -> float:
    """Return the learning rate of step ``t``, which counts from 1."""
    if t <= schedule.warmup_steps:
        start = schedule.warmup_from
        return start + (peak - start) * t / schedule.warmup_steps
    if schedule.total_steps is None:
        return peak
    done = min(1.0, (t - schedule.warmup_steps) / (schedule.total_steps - schedule.warmup_steps))
    left = 1.0 - done if schedule.shape == "linear" else (1.0 + math.cos(math.pi * done)) / 2.0
    return schedule.floor + (peak - schedule.floor) * left
