"""Merge sections of the robust rules: K results become one step, whatever few of them say.

Not the arithmetic (``merging.robust`` and the rules' own files). Invariant: a window is never
smaller than the rule's guarantee needs (``least``).
"""

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from spotgrad.protocol.merge_rule import Rule
from spotgrad.protocol.scalars import Count, Number

MOST: Final = 256
"""So many results may wait beside the model: a step reads all of them at once."""


class Window(Rule):
    """A rule that looks at ``size`` results at once and takes one step by what it makes of them."""

    size: Count | None = Field(default=None, ge=1, le=MOST)
    """K; left out, k (``MOST`` where that is less), or ``least`` where that is more."""
    eta: Number = Field(default=1.0, gt=0)

    @model_validator(mode="after")
    def _enough_for_the_guarantee(self) -> Self:
        if self.least > MOST:
            raise ValueError(
                f"{self.rule} would need {self.why_least} results at once: expected at most {MOST}"
            )
        if self.size is not None and self.size < self.least:
            raise ValueError(
                f"size: {self.size} is too few for {self.rule}: expected at least {self.why_least}"
            )
        return self

    @property
    def least(self) -> int:
        """Return how few results the rule can judge."""
        return 3

    @property
    def why_least(self) -> str:
        """Return where ``least`` comes from, in words."""
        return "3"

    def window(self, in_flight: int) -> int:
        """Return K in a job with so many subtasks in flight."""
        return max(min(in_flight, MOST), self.least) if self.size is None else self.size


class Median(Window):
    """Coordinate-wise median of the window's updates (Yin et al., 2018)."""

    rule: Literal["median"]


class TrimmedMean(Window):
    """Coordinate-wise mean without the ``trim`` largest and smallest (Yin et al., 2018)."""

    rule: Literal["trimmed-mean"]
    trim: Count = Field(default=1, ge=1)

    @property
    def least(self) -> int:
        """Return how few results leave one to average."""
        return 2 * self.trim + 1

    @property
    def why_least(self) -> str:
        """Return where ``least`` comes from, in words."""
        return f"2 trim + 1 = {self.least}"


class Krum(Window):
    """The update nearest to the others, or the mean of the ``best`` (Blanchard et al., 2017)."""

    rule: Literal["krum"]
    bad: Count = Field(default=1, ge=1)
    """f: so many results of a window may be anything."""
    best: Count = Field(default=1, ge=1)
    """m: the mean of so many is taken."""

    @property
    def least(self) -> int:
        """Return how few results let the others outvote the bad ones."""
        return max(2 * self.bad + 3, self.best + self.bad)

    @property
    def why_least(self) -> str:
        """Return where ``least`` comes from, in words."""
        by_bad = 2 * self.bad + 3 >= self.best + self.bad
        return f"{'2 bad + 3' if by_bad else 'best + bad'} = {self.least}"


class CenteredClipping(Window):
    """The last step plus the mean of the clipped ways to each update (Karimireddy et al., 2021)."""

    rule: Literal["centered-clipping"]
    radius: Number | None = Field(default=None, gt=0)
    """tau; left out, the median of the window's distances from the last step."""
    rounds: Count = Field(default=1, ge=1, le=100)
    """L: how often the centre moves per window."""
