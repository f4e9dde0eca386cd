"""One simulated training run, measured: accuracy by epoch, scatter inside an epoch, seconds.

The measurements are plain numbers, ready for JSON. Invariant: nothing here is rounded for show.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, pstdev
from typing import Any

from benchmarks.reproduce.fleet import Fleet
from benchmarks.reproduce.simulator import Merged, Plan, simulate
from benchmarks.reproduce.training import Images, Pipeline
from spotgrad.protocol.job import JobSpec

__all__ = ["Case", "measure", "seconds_to"]


@dataclass(frozen=True)
class Case:
    """A run to be made."""

    spec: JobSpec
    images: Images
    fleet: Fleet
    glance: int | None = None
    """Measure after every merge, on so many images."""
    seed: int = 0


@dataclass
class _Gauge:
    pipeline: Pipeline
    shards: int
    glance: int | None
    accuracy: list[float] = field(default_factory=list)
    inside: list[list[float]] = field(default_factory=lambda: [[]])

    def __call__(self, merged: Merged) -> None:
        clients, published = self.pipeline.clients, self.pipeline.server.published
        if self.glance is not None:
            self.inside[-1].append(clients.accuracy(published, self.glance))
        if merged.number == self.shards:
            self.accuracy.append(clients.accuracy(published))
            self.inside.append([])


def measure(case: Case, pipeline: Pipeline | None = None) -> dict[str, Any]:
    """Make the run, with a pipeline of its own unless one is given; return what is to be kept."""
    pipeline = pipeline or Pipeline(case.spec, case.images)
    shards = len(case.images.shards)
    gauge = _Gauge(pipeline, shards, case.glance)
    plan = Plan(case.spec.epochs, shards, case.spec.schedule.issue, case.spec.seed)
    trace = simulate(plan, case.fleet, pipeline, gauge, seed=case.seed)
    server, clients = pipeline.server, pipeline.clients
    kept = {
        "merge": case.spec.merge.model_dump(exclude_none=True),
        "in_flight": case.fleet.places,
        "accuracy": gauge.accuracy,
        "epoch_ends": trace.epoch_ends,
        "seconds": trace.seconds,
        "refused": trace.refused,
        "mean_staleness": fmean(server.staleness),
        "waited_seconds": trace.waited_seconds,
        "here": {
            "training_seconds": clients.training.mean,
            "merging_seconds": server.merging.seconds / server.merged,
            "evaluation_seconds": clients.evaluation.mean,
        },
    }
    if case.glance is not None:
        kept["within_epoch"] = [_scatter(each) for each in gauge.inside if each]
        kept["last_epoch"] = gauge.inside[-2]
    return kept


def _scatter(values: list[float]) -> Mapping[str, float]:
    return {"low": min(values), "high": max(values), "deviation": pstdev(values)}


def seconds_to(goal: float, kept: Mapping[str, Any], of: Callable[[int], float]) -> float | None:
    """Return ``of(epoch)`` for the first epoch that ends at ``goal`` or above; None for never."""
    for epoch, accuracy in enumerate(kept["accuracy"], 1):
        if accuracy >= goal:
            return of(epoch)
    return None
