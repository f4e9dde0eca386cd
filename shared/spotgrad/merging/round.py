"""A synchronous round under way: the weighted mean of what has come in, kept beside the model.

    B <- B + (n / N) (x - B),    N <- N + n        for every result; N counts this one already

which after the last result is sum n x / sum n, in whichever order they came, up to rounding. The
object ``round`` is B: its parameters are what the rule averages (copies, or updates), its float
buffers those that the server copy will have. Not when a round closes (``planning.rounds``).
Invariant: the server copy changes, and a version is made, only where a round closes.
"""

from spotgrad.merging.combination import ZERO, Combination, client_of, object_of
from spotgrad.merging.occasion import Occasion
from spotgrad.protocol.merge import Synchronous
from spotgrad.protocol.recipe import SERVER, WINDOW, Blend, Recipe

ROUND, MASS, BEFORE = "round", "mass", "round_mass"


class Round:
    """The fold in progress; it lives inside one call of a rule."""

    def __init__(self, merge: Synchronous, occasion: Occasion) -> None:
        self._merge, self._occasion = merge, occasion
        self.mean = object_of(ROUND) if ROUND in occasion.objects else ZERO
        self._statistics = self.mean
        self._seen = occasion.tally.get(WINDOW, 0.0)
        self._mass = occasion.tally.get(MASS, 0.0)
        self._before = occasion.tally.get(BEFORE, 0.0)

    @property
    def share(self) -> float:
        """Return how much this round moves the server copy: all the way, if it is a whole one."""
        if self._occasion.closes == "round":
            return 1.0
        return self._mass / (self._before + self._mass)

    def add(self, number: int, term: Combination, mass: float) -> None:
        """Take the batch's ``number``-th result, of which ``term`` is averaged."""
        self._seen, self._mass = self._seen + 1.0, self._mass + mass
        self.mean = _toward(self.mean, term, mass / self._mass)
        came = client_of(number)
        if self._merge.buffers == "blend":
            self._statistics = _toward(self._statistics, came, mass / self._mass)
        else:
            self._statistics = came if self._merge.buffers == "latest" else object_of(SERVER)

    def kept(self) -> Recipe:
        """Return the recipe of a round that stays open."""
        blend = Blend(parameters=self.mean.weights, buffers=self._statistics.weights)
        tally = {WINDOW: self._seen, MASS: self._mass, BEFORE: self._before}
        return Recipe(outputs={ROUND: blend}, tally=tally)

    def closed(self, server: Combination, **others: Combination) -> Recipe:
        """Return the recipe that makes ``server`` (and other objects), and ends the round."""
        buffers = _toward(object_of(SERVER), self._statistics, self.share)
        outputs = {SERVER: Blend(parameters=server.weights, buffers=buffers.weights)}
        outputs |= {name: Blend(parameters=one.weights) for name, one in others.items()}
        before = self._mass if self._occasion.closes == "round" else self._before + self._mass
        drops = (ROUND,) if ROUND in self._occasion.objects else ()
        tally = {WINDOW: 0.0, MASS: 0.0, BEFORE: before}
        return Recipe(outputs=outputs, drops=drops, tally=tally)


def _toward(start: Combination, goal: Combination, share: float) -> Combination:
    return start * (1.0 - share) + goal * share
