"""Numbers as a job file may hold them: a boolean is none, and neither are NaN and infinity."""

from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field


def _number(value: Any) -> Any:
    """Refuse booleans where a number is meant (``True`` is an ``int`` in Python)."""
    if isinstance(value, bool):
        raise ValueError("a number is needed, not a boolean")  # noqa: TRY004 - a TypeError escapes pydantic
    return value


Number = Annotated[float, BeforeValidator(_number), Field(allow_inf_nan=False)]
Count = Annotated[int, BeforeValidator(_number), Field(strict=True)]
Share = Annotated[Number, Field(gt=0, lt=1)]
"""A number strictly between 0 and 1."""
Duration = Annotated[
    str, Field(pattern=r"^[1-9][0-9]{0,5}[smhd]$", description="text such as 90m, 6h or 2d")
]


def lasts(duration: str) -> timedelta:
    """Return how long a ``Duration`` is."""
    unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}[duration[-1]]
    return timedelta(**{unit: int(duration[:-1])})
