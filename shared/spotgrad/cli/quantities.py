"""Numbers with units, as a person types them: ``25.6M``, ``2.5Gb/s``."""

import math
import re
from typing import Final

from spotgrad.errors import InvalidJob

__all__ = ["RATE", "count_of", "rate_of"]

NUMBER: Final = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
RATE: Final = rf"{NUMBER}\s*[kMGT]?(?:b/s|bps|bit/s)"
_SCALES: Final = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def rate_of(text: str) -> float:
    """Return bits per second; ``text`` matches ``RATE``."""
    return _scaled(re.sub(r"(b/s|bps|bit/s)$", "", text))


def count_of(option: str, text: str) -> int:
    """Return a count such as ``4972746``, ``25.6M`` or ``1e6``.

    Raises:
        InvalidJob: it is none, or not above 0.
    """
    found = re.fullmatch(rf"{NUMBER}[kMGT]?", text.strip())
    value = _scaled(found.group()) if found else math.nan
    if not 1 <= value < math.inf:
        raise InvalidJob(f"{option}: {text!r} is no count above 0; write it as 4972746 or 25.6M")
    return round(value)


def _scaled(text: str) -> float:
    """Return the number; ``text`` is one, with a letter of ``_SCALES`` behind it or without."""
    plain = text.strip()
    scale = plain[-1:] if plain[-1:] in _SCALES else ""
    return float(plain.removesuffix(scale)) * _SCALES[scale]
