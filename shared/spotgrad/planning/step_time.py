"""Step time: how long one step of large-batch training takes, by the way its peers average.

A step is the time in which all peers together compute the target batch, then the averaging;
where both overlap, the longer of the two (DeDLOC's objective). A prediction from bandwidths: no
latency, no stragglers, no optimizer. It needs the solver, so only the command line imports it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from spotgrad.errors import InvalidJob
from spotgrad.planning.averaging import (
    LINK_EFFICIENCY,
    Collaboration,
    Peer,
    Shares,
    Split,
    all_reduce,
    parameter_server,
)
from spotgrad.planning.bandwidth_lp import best_flows, hybrid

MASTER_BITS: Final = 32
"""Versions in the bucket are fp32 master parameters, whatever the gradients are sent as."""
MOST_FLOWS: Final = 64
"""The general problem has a variable per pair of peers: a second for so many, minutes for 256."""


@dataclass(frozen=True)
class Exchange:
    """What is averaged, over which part of a link's bandwidth, and for which batch."""

    parameters: int
    bits: int = 16
    """Per number sent; DeDLOC's runs sent fp16."""
    efficiency: float = LINK_EFFICIENCY
    target_batch: int | None = None
    """Samples of one optimizer step, over all peers."""

    @property
    def vector_bits(self) -> int:
        """Return the bits of one peer's vector."""
        return self.parameters * self.bits


@dataclass(frozen=True)
class StepTime:
    """One way to average, and what a step takes with it; None where it cannot be known."""

    strategy: str
    averaging_seconds: float
    step_seconds: float | None
    """Computing, then averaging."""
    overlapped_seconds: float | None
    """Computing the next batch while averaging this one."""
    shares: Shares | None = None
    """Who aggregates what; None through the bucket, where a function does."""
    slowest: int | None = None
    """The peer that everybody waits for."""


def step_times(collaboration: Collaboration, exchange: Exchange) -> list[StepTime]:
    """Return all-reduce (where possible), parameter server, the hybrid, and through the bucket.

    Raises:
        InvalidJob: a target batch, and a computing peer whose speed is unknown.
    """
    computing = compute_seconds(collaboration.peers, exchange.target_batch)
    made = [
        _step_time(strategy, split, exchange, computing)
        for strategy, split in _splits(collaboration)
        if split is not None
    ]
    return [*made, _through_the_bucket(collaboration.peers, exchange, computing)]


def least_seconds(collaboration: Collaboration, exchange: Exchange) -> float | None:
    """Return what averaging takes at least, by any flow at all; None for too many peers."""
    if len(collaboration.peers) > MOST_FLOWS:
        return None
    rate = best_flows(collaboration).vectors_per_second
    return exchange.vector_bits / (rate * exchange.efficiency)


def compute_seconds(peers: Sequence[Peer], target_batch: int | None) -> float | None:
    """Return how long the peers need to compute a batch together; None without one.

    Raises:
        InvalidJob: a computing peer whose speed is unknown.
    """
    if target_batch is None:
        return None
    total = 0.0
    for number, peer in enumerate(peers, 1):
        if peer.computes and peer.samples_per_second is None:
            raise InvalidJob(
                f"peers: nobody said how fast peer {number} computes, which a target batch of "
                f"{target_batch} needs; add @SAMPLES_PER_SECOND to each group"
            )
        total += peer.samples_per_second or 0.0
    return target_batch / total


def _splits(collaboration: Collaboration) -> Iterator[tuple[str, Split | None]]:
    yield "all-reduce", all_reduce(collaboration)
    yield "parameter server", parameter_server(collaboration)
    yield "hybrid", hybrid(collaboration)


def _step_time(
    strategy: str, split: Split, exchange: Exchange, computing: float | None
) -> StepTime:
    seconds = split.seconds_per_bit * exchange.vector_bits / exchange.efficiency
    return StepTime(strategy, seconds, *_step(computing, seconds), split.shares, split.slowest)


def _through_the_bucket(
    peers: Sequence[Peer], exchange: Exchange, computing: float | None
) -> StepTime:
    """Every peer uploads its vector, then downloads the next version; merging is not counted."""
    up, down = exchange.vector_bits, exchange.parameters * MASTER_BITS
    busy = [peer.computes * (up / peer.upload_bps + down / peer.download_bps) for peer in peers]
    seconds = max(busy) / exchange.efficiency
    slowest = busy.index(max(busy))
    return StepTime("bucket", seconds, *_step(computing, seconds), slowest=slowest)


def _step(computing: float | None, averaging: float) -> tuple[float | None, float | None]:
    if computing is None:
        return None, None
    return computing + averaging, max(computing, averaging)
