"""Clients that may vanish, in numbers: how many, how fast, how often one is lost.

Everything here is virtual time. Not what a subtask does, and not the order of events
(``simulator``). Invariant: the same seed draws the same fates.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

Recovery = Literal["timeout", "notice"]
"""How a lost subtask comes back: when its deadline has passed, and its place waits until then (the
paper), or at the moment when its client is told to go."""


@dataclass(frozen=True)
class Fleet:
    """``clients`` x ``subtasks_per_client`` places (the paper's C and T), ``servers`` (P)."""

    clients: int = 4
    subtasks_per_client: int = 1
    cores: float = math.inf
    """Of one client: with more subtasks than cores each takes longer."""
    servers: int = 1
    subtask_seconds: float = 1.0
    """The mean, of a subtask that has a core of its own."""
    spread: float = 0.2
    """Sigma of the logarithm of a subtask's duration."""
    merge_seconds: float = 0.0
    loss: float = 0.0
    """Probability that a try at a subtask is lost: the paper's p."""
    recovery: Recovery = "timeout"
    timeout_seconds: float = 2.0
    """From a subtask's issue to its deadline: the paper's t_o."""

    @property
    def places(self) -> int:
        """Return how many subtasks may be at work at once: k."""
        return self.clients * self.subtasks_per_client

    @property
    def mean_seconds(self) -> float:
        """Return how long a subtask takes on average when its client is full."""
        return self.subtask_seconds * max(1.0, self.subtasks_per_client / self.cores)


@dataclass(frozen=True)
class Fate:
    """What becomes of one try: its result is there after ``seconds``, or it is known to be lost."""

    seconds: float
    lost: bool = False


class Fates:
    """Draws the fate of each try, in the order in which they begin."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet = fleet
        self._draw = np.random.default_rng(seed)

    def next(self) -> Fate:
        """Return the next try's fate; always three draws, so that one loss moves no other."""
        fleet = self._fleet
        normal, chance, moment = self._draw.normal(), self._draw.random(), self._draw.random()
        seconds = fleet.mean_seconds * math.exp(fleet.spread * normal - fleet.spread**2 / 2)
        if chance >= fleet.loss:
            return Fate(seconds)
        if fleet.recovery == "timeout":
            return Fate(fleet.timeout_seconds, lost=True)
        return Fate(seconds * moment, lost=True)
