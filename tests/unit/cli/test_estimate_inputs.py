from typing import Any

import pytest

from spotgrad.cli.estimate_inputs import Inputs, Known, Wishes, gather
from spotgrad.errors import InvalidJob, Malformed
from spotgrad.planning.averaging import LINK_EFFICIENCY
from spotgrad.ports import ObjectReader
from spotgrad.protocol.job_file import parse_job_file
from spotgrad.protocol.keys import ManifestKey
from tests.builders import JOB, Bench, job_file, manifest, train
from tests.fakes.store import FakeStore

MEASURED = "measured: mean of 1 attempts, and 0 s between"


def gathered(
    store: ObjectReader | None = None, fields: dict[str, Any] | None = None, **wishes: Any
) -> Inputs:
    return gather(parse_job_file(job_file(**(fields or {}))), Wishes(**wishes), store)


@pytest.fixture
def bench() -> Bench:
    """A job of which one subtask was trained, in 7 s."""
    made = Bench()
    made.start(4)
    made.attempt(train(1, 0), "uploaded", seconds=7)
    return made


def test_with_nothing_said_all_is_assumed_or_not_known() -> None:
    inputs = gathered()
    assert inputs.shards == Known(16, "assumed: what dataset push makes unless told")
    assert inputs.notice_seconds == Known(120.0, "assumed: EC2's notice for Spot")
    assert inputs.boot_seconds == Known(180.0, "assumed")
    assert inputs.lease_seconds == Known(120.0, "assumed: the template's default")
    assert inputs.turnaround_seconds == Known(0.0, "assumed")
    assert inputs.extra_samples == Known(1.0, "assumed")
    assert inputs.bits == Known(16, "assumed: as in DeDLOC's runs")
    assert inputs.efficiency == Known(LINK_EFFICIENCY, "assumed: fitted to DeDLOC's table")
    assert inputs.preemption == Known(0.0, "assumed: 0.05 an hour of one machine")
    for unknown in (
        inputs.subtask_seconds,
        inputs.parameters,
        inputs.shard_bytes,
        inputs.usd_per_hour,
        inputs.on_demand_usd_per_hour,
        inputs.target_batch,
    ):
        assert unknown is None


def test_what_is_given_stands() -> None:
    given: dict[str, Any] = {
        "subtask_seconds": 30.0,
        "shards": 50,
        "preemption": 0.1,
        "notice_seconds": 0.0,
        "boot_seconds": 5.0,
        "lease_seconds": 60.0,
        "turnaround_seconds": 3.0,
        "usd_per_hour": 0.1,
        "on_demand_usd_per_hour": 0.3,
        "extra_samples": 2.0,
        "bits": 8,
        "efficiency": 0.5,
        "target_batch": 4096,
    }
    inputs = gathered(**given)
    assert {name: getattr(inputs, name) for name in given} == {
        name: Known(value, "given") for name, value in given.items()
    }
    assert gathered(parameters="25.6M").parameters == Known(25_600_000, "given")


def test_a_bucket_tells_what_was_measured(bench: Bench) -> None:
    inputs = gathered(bench.store)
    assert inputs.subtask_seconds == Known(7.0, MEASURED)
    assert inputs.shards == Known(4, "the data set in the bucket")
    assert inputs.shard_bytes == Known(100, "the data set in the bucket, on average")
    size = bench.head.objects["server"].size_bytes
    assert inputs.parameters == Known(size // 4, "measured: the newest version's bytes / 4")
    assert inputs.turnaround_seconds == Known(0.0, "assumed")  # of one epoch nothing follows


def test_given_beats_measured(bench: Bench) -> None:
    inputs = gathered(
        bench.store, subtask_seconds=1.0, shards=9, parameters="5", turnaround_seconds=4.0
    )
    assert inputs.subtask_seconds == Known(1.0, "given")
    assert inputs.shards == Known(9, "given")
    assert inputs.parameters == Known(5, "given")
    assert inputs.turnaround_seconds == Known(4.0, "given")


def test_between_epochs_is_measured_once_there_are_two(bench: Bench) -> None:
    for shard in range(4):
        bench.aggregate(bench.trained(1, shard))
    bench.attempt(train(2, 0), "uploaded", seconds=7)
    inputs = gathered(bench.store)
    assert inputs.turnaround_seconds == Known(0.0, "measured: between the epochs of these attempts")


def test_another_job_may_serve_as_the_measure(bench: Bench) -> None:
    inputs = gathered(bench.store, {"name": "next"}, like=JOB)
    assert inputs.subtask_seconds == Known(7.0, MEASURED)
    assert gathered(bench.store, {"name": "next"}).subtask_seconds is None
    with pytest.raises(InvalidJob, match="--like other: no job of this name was trained"):
        gathered(bench.store, like="other")
    with pytest.raises(InvalidJob, match="--like digits: a job lies in a bucket: give --bucket"):
        gathered(like=JOB)


def test_a_bucket_without_the_data_set_knows_nothing_of_it() -> None:
    store = FakeStore()
    inputs = gathered(store)
    assert inputs.shards.source.startswith("assumed")
    assert inputs.shard_bytes is None
    store.put(ManifestKey("digits").render(), manifest(0).to_json())
    assert gathered(store).shards.source.startswith("assumed")
    assert gathered(store).shard_bytes is None
    store.put(ManifestKey("digits").render(), b"{}")
    with pytest.raises(Malformed):
        gathered(store)


def test_a_version_before_the_first_has_no_size(bench: Bench) -> None:
    bench.tamper(bench.head.model_copy(update={"objects": {}}))
    assert gathered(bench.store).parameters is None


def test_the_price_may_stand_in_the_job_file() -> None:
    priced = {"workers": {"usd_per_hour": 0.5}}
    assert gathered(None, priced).usd_per_hour == Known(0.5, "the job file")
    assert gathered(None, priced, usd_per_hour=0.2).usd_per_hour == Known(0.2, "given")


def test_preemption_by_the_hour_is_the_chance_of_a_run() -> None:
    inputs = gathered(subtask_seconds=1800.0, preemptions_per_hour=0.1)
    assert inputs.preemption.value == pytest.approx(0.0488, rel=1e-3)
    assert inputs.preemption.source == "given: 0.1 an hour of one machine"
    with pytest.raises(InvalidJob, match="give one of them"):
        gathered(preemption=0.1, preemptions_per_hour=0.1)
    with pytest.raises(InvalidJob, match=r"would cut off 95.0% of the runs of 10800 s; more"):
        gathered(subtask_seconds=10800.0, preemptions_per_hour=1.0)


def test_a_large_batch_says_its_size_and_its_compression_itself() -> None:
    merge = {
        "rule": "dedloc",
        "target_batch_size": 4096,
        "optimizer": {"name": "sgd", "lr": 0.1},
        "compression": "int8-blockwise",
    }
    inputs = gathered(fields={"merge": merge, "local": {}})
    assert inputs.target_batch == Known(4096, "the job file")
    assert inputs.bits == Known(8, "the job file: int8-blockwise")
    inputs = gathered(fields={"merge": merge, "local": {}}, target_batch=99, bits=4)
    assert (inputs.target_batch, inputs.bits) == (Known(99, "given"), Known(4, "given"))
