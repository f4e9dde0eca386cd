"""The port ``WorkerFleet`` on one AWS Batch job queue and one job definition.

One worker is one Batch job; which machine it gets, and when, is the compute environment's business.
SubmitJob has no idempotency token, and lists lag behind: whoever starts workers notes it first
(``steps.tend_fleet``). A retried job (Spot reclaim) stays one worker.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from spotgrad.aws.translate import translated
from spotgrad.planning.fleet import FleetView
from spotgrad.planning.offer import Offer
from spotgrad.settings import FleetSettings

__all__ = ["WORKER_JOB_NAME", "BatchClient", "BatchFleet", "batch_fleets"]

WORKER_JOB_NAME: Final = "spotgrad-worker"
# https://docs.aws.amazon.com/batch/latest/userguide/job_states.html
COMING: Final = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING")
RUNNING: Final = "RUNNING"
WITHOUT_A_MACHINE: Final = "RUNNABLE"

# What Batch writes into the statusReason of a job that blocks its queue, and what helps:
# https://docs.aws.amazon.com/batch/latest/userguide/job_stuck_in_runnable.html
REMEDIES: Final[Mapping[str, str]] = {
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY": "allow more instance types or availability zones",
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE": "raise the environment's maximum of vCPUs",
    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT": (
        "ask for fewer vCPUs, GPUs or less memory per worker, or allow larger instance types"
    ),
    "MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS": "give the Batch service role its permissions",
    "Max spot instance count exceeded": "request a higher Spot vCPU quota for the instance family",
    "MaxSpotInstanceCountExceeded": "request a higher Spot vCPU quota for the instance family",
    "VcpuLimitExceeded": "request a higher On-Demand vCPU quota for the instance family",
}


class BatchClient(Protocol):
    """What is used of boto3's client of Batch; ``spotgrad.aws.clients`` makes it."""

    def list_jobs(self, **request: Any) -> Any:
        """Return one page of jobs."""
        ...

    def submit_job(self, **request: Any) -> Any:
        """Submit one job."""
        ...

    def describe_job_queues(self, **request: Any) -> Any:
        """Describe queues."""
        ...

    def describe_compute_environments(self, **request: Any) -> Any:
        """Describe compute environments."""
        ...


class BatchFleet:
    """Workers as jobs of ``job_definition`` in ``job_queue`` (names or ARNs)."""

    def __init__(
        self, client: BatchClient, job_queue: str, job_definition: str, offer: Offer
    ) -> None:
        self.offer = offer
        self._client = client
        self._job_queue = job_queue
        self._job_definition = job_definition

    def look(self) -> FleetView:
        """Return how the fleet stands; other jobs of the queue are not counted."""
        by_status = {status: list(self._workers(status)) for status in (*COMING, RUNNING)}
        running = len(by_status[RUNNING])
        coming = sum(len(by_status[status]) for status in COMING)
        waiting = by_status[WITHOUT_A_MACHINE]
        if waiting:
            since = min(map(_waits_since, waiting))
            return FleetView(running, coming, since, self._obstacle(waiting))
        if running + coming:
            return FleetView(running, coming)
        return FleetView(mishap=self._mishap())

    def start(self, workers: int) -> None:
        """Submit so many jobs.

        Raises:
            Retry: throttled or failed; some may have been submitted.
            MissingSetting: there is no such queue or definition, or it is disabled.
        """
        with translated(f"start a worker in {self._job_queue}"):
            for _ in range(workers):
                self._client.submit_job(
                    jobName=WORKER_JOB_NAME,
                    jobQueue=self._job_queue,
                    jobDefinition=self._job_definition,
                )

    def _workers(self, status: str) -> Iterator[Mapping[str, Any]]:
        page: dict[str, Any] = {"jobQueue": self._job_queue, "jobStatus": status}
        while True:
            with translated(f"list the {status} workers of {self._job_queue}"):
                answer = self._client.list_jobs(**page)
            yield from (
                job for job in answer["jobSummaryList"] if job["jobName"] == WORKER_JOB_NAME
            )
            if not answer.get("nextToken"):
                return
            page["nextToken"] = answer["nextToken"]

    def _obstacle(self, waiting: Sequence[Mapping[str, Any]]) -> str | None:
        """Return Batch's own words: the job's if it has any, else those of its environments."""
        said = [job["statusReason"] for job in waiting if job.get("statusReason")]
        return _with_remedy(said[0]) if said else self._environment_trouble()

    def _environment_trouble(self) -> str | None:
        for environment in self._environments():
            name = environment["computeEnvironmentName"]
            if environment.get("state") == "DISABLED":
                return f"compute environment {name} is DISABLED: enable it"
            if environment.get("status") != "VALID":
                said = environment.get("statusReason", "")
                return _with_remedy(
                    f"compute environment {name} is {environment['status']}: {said}"
                )
        return None

    def _environments(self) -> Sequence[Mapping[str, Any]]:
        with translated(f"describe {self._job_queue}"):
            queues = self._client.describe_job_queues(jobQueues=[self._job_queue])["jobQueues"]
            order = [
                one["computeEnvironment"] for q in queues for one in q["computeEnvironmentOrder"]
            ]
            if not order:
                return []
            answer = self._client.describe_compute_environments(computeEnvironments=order)
        found: Sequence[Mapping[str, Any]] = answer["computeEnvironments"]
        return found

    def _mishap(self) -> str | None:
        """Return how the latest failed worker ended, if one of them did (Batch lists 7 days)."""
        failed = [job for job in self._first_failed() if job.get("stoppedAt")]
        if not failed:
            return None
        latest = max(failed, key=lambda job: int(job["stoppedAt"]))
        said = str(latest.get("statusReason") or "no reason given")
        code = latest.get("container", {}).get("exitCode")
        return said if code is None else f"{said} (exit code {code})"

    def _first_failed(self) -> Sequence[Mapping[str, Any]]:
        """Return the first page alone: nobody pages through a week for the sake of a wording."""
        with translated(f"list the FAILED workers of {self._job_queue}"):
            answer = self._client.list_jobs(jobQueue=self._job_queue, jobStatus="FAILED")
        return [job for job in answer["jobSummaryList"] if job["jobName"] == WORKER_JOB_NAME]


def batch_fleets(client: BatchClient, told: FleetSettings) -> Sequence[BatchFleet]:
    """Return the fleets of a deployment, the one that is asked first first; none without one."""
    if not told.worker_job_queue:
        return ()
    queues = {told.worker_job_queue: Offer("spot", spot=True, gpus=told.worker_gpus)}
    if told.on_demand_job_queue:  # the same one, where there is no Spot at all
        queues[told.on_demand_job_queue] = Offer("on_demand", spot=False, gpus=told.worker_gpus)
    return [
        BatchFleet(client, queue, told.worker_job_definition, offer)
        for queue, offer in queues.items()
    ]


def _waits_since(job: Mapping[str, Any]) -> datetime:
    """Return since when the job waits: a retried one since its last attempt ended."""
    milliseconds = max(int(job.get(name) or 0) for name in ("createdAt", "startedAt", "stoppedAt"))
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _with_remedy(said: str) -> str:
    remedy = next((remedy for mark, remedy in REMEDIES.items() if mark in said), None)
    return f"{said} ({remedy})" if remedy else said
