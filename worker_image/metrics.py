"""What a task reports about a batch, gathered as sums over samples so that shards add up exactly.

A step may return a loss, a mapping of values, or log them (``self.log``), as in Lightning; a value
is the mean over its batch. Nothing that is not finite leaves here: JSON has no NaN.
"""

import logging
import math
from collections.abc import Mapping
from typing import Any

import torch

from spotgrad.errors import Unsupported
from spotgrad.protocol.result import Sum

__all__ = ["Meter", "values_of"]

log = logging.getLogger(__name__)


class Meter:
    """Sums by metric. It stands in for the task's ``log`` and ``log_dict``."""

    def __init__(self) -> None:
        self._totals: dict[str, float] = {}
        self._counts: dict[str, float] = {}
        self._logged: dict[str, float] = {}

    def log(self, name: str, value: Any, *_: Any, **__: Any) -> None:
        """Take one value of the batch at hand; Lightning's other arguments mean nothing here."""
        self._logged[name] = number(name, value)

    def log_dict(self, dictionary: Mapping[str, Any], *_: Any, **__: Any) -> None:
        """Take several values of the batch at hand."""
        for name, value in dictionary.items():
            self.log(name, value)

    def take(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return what the step returned and what it logged; the returned value of a name wins."""
        taken = {**self._logged, **values}
        self._logged.clear()
        return taken

    def add(self, values: Mapping[str, float], samples: int) -> None:
        """Add the means over ``samples`` samples."""
        for name, value in values.items():
            self._totals[name] = self._totals.get(name, 0.0) + value * samples
            self._counts[name] = self._counts.get(name, 0.0) + samples

    def state(self) -> dict[str, dict[str, float]]:
        """Return the sums so far, whatever they are."""
        return {"totals": dict(self._totals), "counts": dict(self._counts)}

    def restore(self, state: Mapping[str, Mapping[str, float]]) -> None:
        """Go on from what ``state`` returned."""
        self._totals, self._counts = dict(state["totals"]), dict(state["counts"])

    def sums(self) -> dict[str, Sum]:
        """Return the finite sums, by name."""
        found: dict[str, Sum] = {}
        for name, total in sorted(self._totals.items()):
            if math.isfinite(total):
                found[name] = Sum(total=total, count=self._counts[name])
            else:
                log.warning("metric %r is %s: left out", name, total)
        return found


def values_of(output: Any) -> dict[str, float]:
    """Return what a step returned as values by name; a bare value is the loss.

    Raises:
        Unsupported: it returned something else.
    """
    if output is None:
        return {}
    if isinstance(output, Mapping):
        return {str(name): number(str(name), value) for name, value in output.items()}
    return {"loss": number("loss", output)}


def number(name: str, value: Any) -> float:
    """Return a metric as a float.

    Raises:
        Unsupported: it is no single number.
    """
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return float(value.detach())
    if isinstance(value, (bool, int, float)):
        return float(value)
    try:
        return float(value.item())  # numpy's scalars
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise Unsupported(
            f"metric {name!r} is a {type(value).__name__}, not one number: return or log its value"
        ) from error
