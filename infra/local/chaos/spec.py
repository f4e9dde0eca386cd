"""What ``--chaos`` asks for: ``kill=0.15,duplicate=0.2,reorder,seed=1`` -> ``ChaosSpec``. Pure."""

import difflib
import math
from dataclasses import dataclass, fields
from typing import Final

from spotgrad.errors import InvalidJob

MOST_DELAY_SECONDS: Final = 900
"""SQS delays a message by 15 minutes at most."""

_FLAGS: Final = frozenset({"reorder"})
_SECONDS: Final = frozenset({"delay"})
_WHOLE: Final = frozenset({"seed"})


@dataclass(frozen=True)
class ChaosSpec:
    """How often each fault happens; nothing happens that was not asked for."""

    kill: float = 0.0
    """Probability that a training attempt is ended by SIGKILL of its worker."""
    notice: float = 0.0
    """Probability that a training attempt's machine is announced to go: a Spot notice."""
    duplicate: float = 0.0
    """Probability that a message is delivered twice."""
    delay: float = 0.0
    """Seconds by which a delivery is late, at most."""
    reorder: bool = False
    """Whether batches are shuffled, and some messages held back behind later ones."""
    corrupt: float = 0.0
    """Probability that a result is stored damaged."""
    throttle: float = 0.0
    """Probability that a request is answered with SlowDown or RequestThrottled."""
    aggregator_crash: float = 0.0
    """Probability that a function is killed at one of its writes."""
    seed: int = 0

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the faults that were asked for, as they are spelled on the command line."""
        return tuple(
            _spelled(field.name)
            for field in fields(self)
            if field.name != "seed" and getattr(self, field.name)
        )


_KEYS: Final = tuple(field.name.replace("_", "-") for field in fields(ChaosSpec))


def parse_chaos(text: str) -> ChaosSpec:
    """Read the option's value.

    Raises:
        InvalidJob: one line that names the key, its value and what is allowed.
    """
    found: dict[str, float | bool | int] = {}
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        if key not in _KEYS:
            raise InvalidJob(f"--chaos: {key!r} is no fault; {_nearest(key)}")
        if key in found:
            raise InvalidJob(f"--chaos: {key} is given twice")
        found[key] = _value(key, value.strip() if equals else None)
    return ChaosSpec(**{key.replace("-", "_"): value for key, value in found.items()})  # type: ignore[arg-type]  # each by its own key


def _value(key: str, text: str | None) -> float | bool | int:
    if key in _FLAGS:
        if text is not None:
            raise InvalidJob(f"--chaos: {key}={text}: {key} takes no value; write {key} alone")
        return True
    if key in _WHOLE:
        return int(_number(key, text, math.inf, "a whole number of at least 0", whole=True))
    if key in _SECONDS:
        allowed = f"seconds from 0 to {MOST_DELAY_SECONDS}"
        return _number(key, text, MOST_DELAY_SECONDS, allowed)
    return _number(key, text, 1.0, "a probability from 0 to 1")


def _number(
    key: str, text: str | None, most: float, allowed: str, *, whole: bool = False
) -> float | int:
    try:
        number = int(text or "") if whole else float(text or "")
    except ValueError:
        number = math.nan
    if not 0 <= number <= most:  # nan is neither
        shown = key if text is None else f"{key}={text}"
        raise InvalidJob(f"--chaos: {shown}: expected {key}= and {allowed}")
    return number


def _nearest(key: str) -> str:
    near = difflib.get_close_matches(key, _KEYS, n=1)
    return f'did you mean "{near[0]}"?' if near else f"allowed are {', '.join(_KEYS)}"


def _spelled(name: str) -> str:
    return name.replace("_", "-")
