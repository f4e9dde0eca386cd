"""The document of ``estimate --json``; a section is null where its inputs are not known."""

from dataclasses import dataclass
from typing import Final

from spotgrad.cli.estimate_inputs import Inputs
from spotgrad.cli.peers import PeerGroup
from spotgrad.planning.averaging import Shares
from spotgrad.planning.bill import Bill, Transfers
from spotgrad.planning.forecast import Forecast, Work
from spotgrad.planning.step_time import Exchange, StepTime

__all__ = ["JOB_NOTES", "PEERS_NOTES", "Averaging", "Estimate", "Outlook"]

JOB_NOTES: Final = (
    "not counted: evaluation, functions, requests, storage, second copies of stragglers",
    "one machine needs fewer samples for the same accuracy: see --extra-samples, and "
    "docs/estimate.md for what was measured",
)
PEERS_NOTES: Final = (
    "averaging is predicted from bandwidths alone: no latency, no stragglers, no optimizer",
)


@dataclass(frozen=True)
class Outlook:
    """What the job itself will take."""

    work: Work
    forecast: Forecast
    cost: Bill | None
    """With machines that give notice; None without a price."""
    transfers: Transfers | None
    """None where nobody knows how large the model is."""


@dataclass(frozen=True)
class Averaging:
    """How peers would average directly with each other; spotgrad itself goes through the bucket."""

    groups: list[PeerGroup]
    exchange: Exchange
    strategies: list[StepTime]
    least_seconds: float | None
    """No flow at all is faster; None for too many peers."""

    def group_of(self, place: int) -> PeerGroup:
        """Return the group of the peer at this place."""
        return [group for group in self.groups for _ in range(group.count)][place]

    def by_group(self, shares: Shares) -> list[Shares]:
        """Return the shares of each group's peers."""
        found, begin = [], 0
        for group in self.groups:
            found.append(shares[begin : begin + group.count])
            begin += group.count
        return found


@dataclass(frozen=True)
class Estimate:
    """Everything that is said about a job."""

    job: str
    inputs: Inputs
    outlook: Outlook | None
    averaging: Averaging | None
    warnings: list[str]
    notes: list[str]
