"""What an estimate rests on: each number with where it comes from.

Given beats measured beats assumed. Invariant: nothing is used that does not stand here, so a person
sees every assumption.
"""

import math
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from spotgrad.cli.data import DEFAULT_SHARDS
from spotgrad.cli.quantities import count_of
from spotgrad.errors import InvalidJob
from spotgrad.planning.averaging import LINK_EFFICIENCY
from spotgrad.planning.forecast import SECONDS_PER_HOUR
from spotgrad.planning.preemption import MOST_PREEMPTION
from spotgrad.ports import ObjectReader
from spotgrad.protocol.codecs import BITS
from spotgrad.protocol.dataset import DatasetManifest
from spotgrad.protocol.job import JobSpec
from spotgrad.protocol.keys import ManifestKey
from spotgrad.protocol.merge import DeDLOC
from spotgrad.steps.documents import find_document
from spotgrad.steps.measure_job import Measured, measure_job

__all__ = ["Inputs", "Known", "Wishes", "gather"]

Value = TypeVar("Value", float, int)

ASSUMED: Final = "assumed"
PREEMPTIONS_PER_HOUR: Final = 0.05
"""A guess: it differs by instance type, zone and day."""
BYTES_PER_PARAMETER: Final = 4
"""Versions and results are fp32."""
_JOB_FILE: Final = "the job file"


@dataclass(frozen=True)
class Known(Generic[Value]):
    """A number and where it comes from."""

    value: Value
    source: str

    @property
    def assumed(self) -> bool:
        """Return whether nobody said or measured it."""
        return self.source.startswith(ASSUMED)


@dataclass(frozen=True)
class Wishes:
    """The command's options; None where nothing was said."""

    subtask_seconds: float | None = None
    shards: int | None = None
    parameters: str | None = None
    like: str | None = None
    preemption: float | None = None
    preemptions_per_hour: float | None = None
    notice_seconds: float | None = None
    boot_seconds: float | None = None
    lease_seconds: float | None = None
    turnaround_seconds: float | None = None
    usd_per_hour: float | None = None
    on_demand_usd_per_hour: float | None = None
    extra_samples: float | None = None
    peers: str | None = None
    bits: int | None = None
    efficiency: float | None = None
    target_batch: int | None = None


@dataclass(frozen=True)
class Inputs:
    """What is known; None where nobody knows and nothing can be assumed."""

    shards: Known[int]
    subtask_seconds: Known[float] | None
    turnaround_seconds: Known[float]
    parameters: Known[int] | None
    shard_bytes: Known[int] | None
    preemption: Known[float]
    notice_seconds: Known[float]
    boot_seconds: Known[float]
    lease_seconds: Known[float]
    usd_per_hour: Known[float] | None
    on_demand_usd_per_hour: Known[float] | None
    extra_samples: Known[float]
    bits: Known[int]
    efficiency: Known[float]
    target_batch: Known[int] | None


def gather(spec: JobSpec, wishes: Wishes, store: ObjectReader | None) -> Inputs:
    """Return what is given, measured in the bucket, or assumed.

    Raises:
        InvalidJob: an option that says nothing, or ``like`` names a job of which nothing is known.
        Malformed: a document in the bucket is damaged.
    """
    measured, manifest = _measured(spec, wishes, store), _manifest(spec, store)
    subtask_seconds = _given(wishes.subtask_seconds) or _mean(measured)
    price = wishes.usd_per_hour or spec.workers.usd_per_hour
    return Inputs(
        shards=_shards(wishes, manifest),
        subtask_seconds=subtask_seconds,
        turnaround_seconds=_turnaround(wishes, measured),
        parameters=_parameters(wishes, measured),
        shard_bytes=_shard_bytes(manifest),
        preemption=_preemption(wishes, subtask_seconds),
        notice_seconds=_assumed(wishes.notice_seconds, 120.0, "EC2's notice for Spot"),
        boot_seconds=_assumed(wishes.boot_seconds, 180.0),
        lease_seconds=_assumed(wishes.lease_seconds, 120.0, "the template's default"),
        usd_per_hour=None
        if price is None
        else Known(price, "given" if wishes.usd_per_hour else _JOB_FILE),
        on_demand_usd_per_hour=_given(wishes.on_demand_usd_per_hour),
        extra_samples=_assumed(wishes.extra_samples, 1.0),
        bits=_bits(wishes, spec),
        efficiency=_assumed(wishes.efficiency, LINK_EFFICIENCY, "fitted to DeDLOC's table"),
        target_batch=_target_batch(wishes, spec),
    )


def _target_batch(wishes: Wishes, spec: JobSpec) -> Known[int] | None:
    if wishes.target_batch is None and isinstance(spec.merge, DeDLOC):
        return Known(spec.merge.target_batch_size, _JOB_FILE)
    return _given(wishes.target_batch)


def _bits(wishes: Wishes, spec: JobSpec) -> Known[int]:
    if wishes.bits is None and isinstance(spec.merge, DeDLOC):
        return Known(BITS[spec.merge.compression], f"{_JOB_FILE}: {spec.merge.compression}")
    return _assumed(wishes.bits, 16, "as in DeDLOC's runs")


def _measured(spec: JobSpec, wishes: Wishes, store: ObjectReader | None) -> Measured | None:
    if store is None:
        if wishes.like is not None:
            raise InvalidJob(f"--like {wishes.like}: a job lies in a bucket: give --bucket too")
        return None
    found = measure_job(store, wishes.like or spec.name)
    if found is None and wishes.like is not None:
        raise InvalidJob(f"--like {wishes.like}: no job of this name was trained in this bucket")
    return found


def _manifest(spec: JobSpec, store: ObjectReader | None) -> DatasetManifest | None:
    if store is None:
        return None
    return find_document(store, ManifestKey(spec.dataset).render(), DatasetManifest)


def _shards(wishes: Wishes, manifest: DatasetManifest | None) -> Known[int]:
    if wishes.shards is None and manifest is not None and "train" in manifest.splits:
        return Known(len(manifest.splits["train"].shards), "the data set in the bucket")
    return _assumed(wishes.shards, DEFAULT_SHARDS, "what dataset push makes unless told")


def _shard_bytes(manifest: DatasetManifest | None) -> Known[int] | None:
    if manifest is None or "train" not in manifest.splits:
        return None
    sizes = [shard.size_bytes for shard in manifest.splits["train"].shards]
    return Known(round(sum(sizes) / len(sizes)), "the data set in the bucket, on average")


def _mean(measured: Measured | None) -> Known[float] | None:
    if measured is None:
        return None
    source = (
        f"measured: mean of {measured.attempts} attempts, and {measured.gap_seconds:.2g} s between"
    )
    return Known(measured.subtask_seconds, source)


def _turnaround(wishes: Wishes, measured: Measured | None) -> Known[float]:
    if wishes.turnaround_seconds is None and measured is not None:
        seconds = measured.turnaround_seconds
        if seconds is not None:
            return Known(seconds, "measured: between the epochs of these attempts")
    return _assumed(wishes.turnaround_seconds, 0.0)


def _preemption(wishes: Wishes, subtask_seconds: Known[float] | None) -> Known[float]:
    """Return the chance that one run of a subtask is cut off."""
    if wishes.preemption is not None:
        if wishes.preemptions_per_hour is not None:
            raise InvalidJob("--preemption and --preemptions-per-hour: give one of them")
        return Known(wishes.preemption, "given")
    rate = _assumed(wishes.preemptions_per_hour, PREEMPTIONS_PER_HOUR)
    seconds = 0.0 if subtask_seconds is None else subtask_seconds.value
    chance = -math.expm1(-rate.value * seconds / SECONDS_PER_HOUR)
    if chance > MOST_PREEMPTION:
        raise InvalidJob(
            f"--preemptions-per-hour: {rate.value:g} would cut off {chance:.1%} of the runs of "
            f"{seconds:g} s; more --shards make them shorter"
        )
    return Known(chance, f"{rate.source}: {rate.value:g} an hour of one machine")


def _parameters(wishes: Wishes, measured: Measured | None) -> Known[int] | None:
    if wishes.parameters is not None:
        return Known(count_of("--parameters", wishes.parameters), "given")
    if measured is None or measured.model_bytes is None:
        return None
    source = "measured: the newest version's bytes / 4"
    return Known(max(1, measured.model_bytes // BYTES_PER_PARAMETER), source)


def _given(value: Value | None) -> Known[Value] | None:
    return None if value is None else Known(value, "given")


def _assumed(value: Value | None, otherwise: Value, why: str = "") -> Known[Value]:
    return _given(value) or Known(otherwise, f"{ASSUMED}: {why}" if why else ASSUMED)
