"""``fleet/<fleet>.json``: when workers were last started, so that nobody starts them twice.

Written under a condition before the workers are started: of two functions that see the same gap,
one wins and the other reads what the winner is about to do.
"""

from datetime import datetime
from typing import ClassVar

from pydantic import Field

from spotgrad.protocol.wire import Document


class Muster(Document):
    """The last time that workers of a fleet were started, for all its jobs together."""

    what: ClassVar[str] = "muster"

    at: datetime
    workers: int = Field(ge=0)
    """How many were to be alive after it."""
    in_vain: int = Field(default=0, ge=0)
    """Starts in a row after which no job got on."""
