"""The machine's clock and randomness: what composition roots pass in as ``Clock`` and ``NewId``.

Not AWS and not pure, hence a module of its own. Nothing else in the project asks the machine for
the time or draws identifiers, so everything else can be replayed.
"""

import secrets
import time
from datetime import UTC, datetime

__all__ = ["SystemClock", "new_id"]

ID_BYTES = 8
"""64 random bits: two of a million commits of one job collide with a chance of about 3e-8."""


class SystemClock:
    """The port ``Clock`` on this machine."""

    def now(self) -> datetime:
        """Return the present time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds from an arbitrary origin that never go back."""
        return time.monotonic()


def new_id() -> str:
    """Return 16 lower-case hexadecimal digits from the operating system's entropy."""
    return secrets.token_hex(ID_BYTES)
