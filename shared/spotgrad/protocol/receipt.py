"""``state/<job>/receipt.json``: what a job cost, kept where the job file says a price.

A cache over the attempt records, not a decision: whoever loses it may add it up again while the
records are retained. Sums per epoch, so that a closed epoch is not read again every minute.
"""

from typing import ClassVar

from pydantic import Field

from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.job import JobName
from spotgrad.protocol.wire import Document, Finite, Identifier, Part


class EpochCost(Part):
    """What the attempts at one epoch's subtasks took, its evaluation included."""

    epoch: int = Field(ge=0)
    worker_seconds: Finite = Field(default=0.0, ge=0)
    settled: bool = False
    """Nothing will be added: the epoch is closed and nobody works at it."""
    counted_seconds: Finite = Field(default=0.0, ge=0)
    """The part of ``worker_seconds`` that is final: of the subtasks in the two sets."""
    trained: Bitmap = Bitmap()
    evaluated: Bitmap = Bitmap()


class Receipt(Document):
    """The sums of a job; money is what the workers' time cost at the price of the job file.

    What such capacity would have cost on demand is not known without a price table: null.
    """

    what: ClassVar[str] = "receipt"

    job: JobName
    run: Identifier
    usd_per_hour: Finite = Field(gt=0)
    worker_seconds: Finite = Field(ge=0)
    usd: Finite = Field(ge=0)
    on_demand_usd: Finite | None = None
    saved_percent: Finite | None = None
    epochs: tuple[EpochCost, ...] = ()
