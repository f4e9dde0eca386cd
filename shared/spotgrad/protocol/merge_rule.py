"""What every merge rule's section of a job file has in common; the rules themselves: ``merge``."""

from typing import Literal

from spotgrad.protocol.scalars import Share
from spotgrad.protocol.wire import Part


class Rule(Part):
    """What every rule lets one choose."""

    rule: str
    buffers: Literal["blend", "latest", "keep"] = "blend"
    """Float buffers (BatchNorm's statistics): blended as the rule says, the latest result's, or
    those that the model was initialized with."""
    ema: Share | None = None
    """Also publish an exponential average of the server copy, with this decay per result; it is
    what is evaluated and exported."""

    @property
    def starts_at_epoch(self) -> bool:
        """Return whether subtasks begin from the version that stood when their epoch began."""
        return False

    @property
    def in_rounds(self) -> bool:
        """Return whether an epoch's results are merged all at once."""
        return False
