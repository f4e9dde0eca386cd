"""A result that landed, as it was read: what a decision sees of it, without its tensors."""

from dataclasses import dataclass

from spotgrad.protocol.head import WorkItem
from spotgrad.protocol.keys import ResultKey
from spotgrad.protocol.ledger import SetAside
from spotgrad.protocol.result import ResultMetadata

MOST_REASON_CHARACTERS = 500
"""Reasons go into the head, one line each; the result itself keeps the whole traceback."""


@dataclass(frozen=True)
class Arrival:
    """A result as it was read: its claims, or the problem for which it must be refused."""

    key: ResultKey
    sha256: str
    metadata: ResultMetadata | None
    problem: str | None
    update_norm: float = 0.0
    """L2 norm of client minus start over the float parameters; only training has one."""
    apart: tuple[float, ...] | None = None
    """How far it is from each result that its check has heard; None when one of them is gone."""

    @property
    def item(self) -> WorkItem:
        """Return the subtask that the result's key names."""
        return WorkItem(epoch=self.key.epoch, subtask=self.key.subtask)

    def set_aside(self, reason: str) -> SetAside:
        """Return the ledger's row for a result that is not merged."""
        return SetAside(
            epoch=self.key.epoch,
            subtask=self.key.subtask,
            attempt=self.key.attempt,
            key=self.key.render(),
            reason=" ".join(reason.split())[:MOST_REASON_CHARACTERS],
        )
