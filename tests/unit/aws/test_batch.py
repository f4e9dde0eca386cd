from datetime import UTC, datetime, timedelta

import pytest

from spotgrad.aws.batch import BatchFleet, batch_fleets
from spotgrad.errors import StoreUnavailable
from spotgrad.planning.fleet import FleetView
from spotgrad.settings import FleetSettings, MissingSetting
from tests.fakes.batch import DEFINITION, QUEUE, FakeBatch
from tests.fakes.fleet import SPOT

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def batch() -> FakeBatch:
    return FakeBatch()


@pytest.fixture
def fleet(batch: FakeBatch) -> BatchFleet:
    return BatchFleet(batch, QUEUE, DEFINITION, SPOT)


def seconds(number: float) -> datetime:
    return EPOCH + timedelta(seconds=number)


def test_what_is_submitted_comes(batch: FakeBatch, fleet: BatchFleet) -> None:
    fleet.start(3)
    assert fleet.look() == FleetView(coming=3)
    assert {job["jobName"] for job in batch.jobs} == {"spotgrad-worker"}


def test_every_state_is_counted_where_it_belongs(batch: FakeBatch, fleet: BatchFleet) -> None:
    for status in ("SUBMITTED", "PENDING", "STARTING", "RUNNING", "RUNNING", "SUCCEEDED", "FAILED"):
        batch.add(status)
    assert fleet.look() == FleetView(running=2, coming=3)


def test_other_jobs_of_the_queue_are_not_ours(batch: FakeBatch, fleet: BatchFleet) -> None:
    for status in ("RUNNING", "RUNNABLE", "FAILED"):
        batch.add(status, name="somebody-elses", stoppedAt=1)
    assert fleet.look() == FleetView()


def test_pages_are_turned() -> None:
    batch = FakeBatch(page_size=2)
    for _ in range(5):
        batch.add("RUNNING")
    assert BatchFleet(batch, QUEUE, DEFINITION, SPOT).look() == FleetView(running=5)


def test_a_retried_worker_waits_since_its_last_end(batch: FakeBatch, fleet: BatchFleet) -> None:
    batch.add("RUNNABLE", createdAt=1_000, startedAt=5_000, stoppedAt=9_000)
    batch.add("RUNNABLE", createdAt=20_000)
    assert fleet.look().waiting_since == seconds(9)


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        (
            "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Service cannot fulfill the capacity",
            "(allow more instance types or availability zones)",
        ),
        (
            "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - CE(s) max",
            "(raise the environment's maximum of vCPUs)",
        ),
        ("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job", "or allow larger instance types)"),
        ("MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS - Batch", "service role its permissions)"),
        ("a reason that nobody knows", "a reason that nobody knows"),
    ],
)
def test_the_obstacle_is_in_batchs_words_with_a_remedy(
    batch: FakeBatch, fleet: BatchFleet, said: str, remedy: str
) -> None:
    batch.add("RUNNABLE")
    batch.add("RUNNABLE", statusReason=said)
    obstacle = fleet.look().obstacle
    assert obstacle is not None
    assert obstacle.startswith(said)
    assert obstacle.endswith(remedy)
    assert "DescribeComputeEnvironments" not in batch.requests


def test_where_no_job_says_why_its_environment_is_asked(
    batch: FakeBatch, fleet: BatchFleet
) -> None:
    batch.add("RUNNABLE")
    assert fleet.look().obstacle is None
    batch.environment |= {
        "status": "INVALID",
        "statusReason": "CLIENT_ERROR - Max spot instance count exceeded",
    }
    assert fleet.look().obstacle == (
        "compute environment spot is INVALID: CLIENT_ERROR - Max spot instance count exceeded "
        "(request a higher Spot vCPU quota for the instance family)"
    )
    batch.environment["state"] = "DISABLED"
    assert fleet.look().obstacle == "compute environment spot is DISABLED: enable it"


def test_a_queue_that_is_gone_has_no_environments(batch: FakeBatch, fleet: BatchFleet) -> None:
    batch.add("RUNNABLE")
    batch.describe_job_queues = lambda **_: {"jobQueues": []}  # type: ignore[method-assign]  # deleted meanwhile
    assert fleet.look().obstacle is None


def test_how_the_last_worker_failed_is_told_when_none_is_alive(
    batch: FakeBatch, fleet: BatchFleet
) -> None:
    batch.add("FAILED", stoppedAt=9_000, statusReason="old")
    batch.add("FAILED")
    batch.add(
        "FAILED",
        stoppedAt=10_000,
        statusReason="Essential container in task exited",
        container={"exitCode": 65},
    )
    assert fleet.look().mishap == "Essential container in task exited (exit code 65)"
    batch.add("FAILED", stoppedAt=11_000)
    assert fleet.look().mishap == "no reason given"
    batch.add("RUNNING")
    assert fleet.look() == FleetView(running=1)


def test_throttling_is_retried_by_whoever_asked(batch: FakeBatch, fleet: BatchFleet) -> None:
    batch.throttled = 1
    with pytest.raises(StoreUnavailable, match=r"start a worker in arn:.*TooManyRequests"):
        fleet.start(1)
    batch.throttled = 1
    with pytest.raises(StoreUnavailable, match="list the SUBMITTED workers"):
        fleet.look()


@pytest.mark.parametrize(
    ("queue", "definition"), [("nowhere", DEFINITION), (QUEUE, "nothing")], ids=["queue", "job"]
)
def test_a_fleet_that_does_not_exist_names_the_settings(
    batch: FakeBatch, queue: str, definition: str
) -> None:
    with pytest.raises(MissingSetting, match="SPOTGRAD_WORKER_JOB_QUEUE"):
        BatchFleet(batch, queue, definition, SPOT).start(1)


@pytest.mark.parametrize(
    ("spot", "on_demand", "offers"),
    [
        ("", "", []),
        ("q", "", [("spot", True)]),
        ("q", "q", [("on_demand", False)]),
        ("q", "other", [("spot", True), ("on_demand", False)]),
    ],
    ids=["by hand", "Spot alone", "no Spot", "both"],
)
def test_there_is_a_fleet_for_each_kind_of_machine(
    batch: FakeBatch, spot: str, on_demand: str, offers: list[tuple[str, bool]]
) -> None:
    told = FleetSettings(
        worker_job_queue=spot,
        worker_job_definition="d" if spot else "",
        on_demand_job_queue=on_demand,
        worker_gpus=4,
    )
    found = [fleet.offer for fleet in batch_fleets(batch, told)]
    assert [(one.name, one.spot) for one in found] == offers
    assert {one.gpus for one in found} <= {4}
