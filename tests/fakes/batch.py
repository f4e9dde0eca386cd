"""AWS Batch's client in memory, as far as ``spotgrad.aws.batch`` calls it: what moto cannot hold.

moto's jobs succeed as they are submitted, none waits, no page has a successor. Here jobs stay in
the state that a test gives them. Milliseconds since 1970, as Batch counts.
"""

import itertools
from typing import Any

from botocore.exceptions import ClientError

QUEUE = "arn:aws:batch:us-east-1:123456789012:job-queue/spotgrad"
DEFINITION = "arn:aws:batch:us-east-1:123456789012:job-definition/spotgrad:1"
ENVIRONMENT = "spot"
STATES = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED")


class FakeBatch:
    """One queue with one compute environment.

    Attributes:
        jobs: every job that is listed, as ``list_jobs`` summarises it.
        environment: what ``describe_compute_environments`` says.
        page_size: jobs on one page.
        throttled: so many requests fail from now on.
        requests: the names of all calls.
    """

    def __init__(self, *, page_size: int = 1000) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.environment: dict[str, Any] = {
            "computeEnvironmentName": ENVIRONMENT,
            "state": "ENABLED",
            "status": "VALID",
        }
        self.page_size = page_size
        self.throttled = 0
        self.requests: list[str] = []
        self._numbers = itertools.count(1)

    def add(self, status: str, name: str = "spotgrad-worker", **facts: Any) -> None:
        if status not in STATES:
            raise ValueError(f"{status}: Batch knows {', '.join(STATES)}")
        row = {"jobId": f"job-{next(self._numbers)}", "jobName": name, "status": status}
        self.jobs.append({**row, "createdAt": 1_000, **facts})

    def list_jobs(self, **request: Any) -> Any:
        self._begin("ListJobs", request["jobQueue"])
        found = [job for job in self.jobs if job["status"] == request["jobStatus"]]
        first = int(request.get("nextToken", 0))
        answer: dict[str, Any] = {"jobSummaryList": found[first : first + self.page_size]}
        if first + self.page_size < len(found):
            answer["nextToken"] = str(first + self.page_size)
        return answer

    def submit_job(self, **request: Any) -> Any:
        self._begin("SubmitJob", request["jobQueue"])
        if request["jobDefinition"] != DEFINITION:
            raise _error("ClientException", 400, "SubmitJob")
        self.add("SUBMITTED", request["jobName"])
        return {"jobId": self.jobs[-1]["jobId"]}

    def describe_job_queues(self, **request: Any) -> Any:
        self._begin("DescribeJobQueues", QUEUE)
        order = [{"order": 1, "computeEnvironment": ENVIRONMENT}]
        queue = {"jobQueueName": "spotgrad", "computeEnvironmentOrder": order}
        return {"jobQueues": [queue] if QUEUE in request["jobQueues"] else []}

    def describe_compute_environments(self, **request: Any) -> Any:
        self._begin("DescribeComputeEnvironments", QUEUE)
        wanted = request["computeEnvironments"]
        return {"computeEnvironments": [self.environment] if ENVIRONMENT in wanted else []}

    def _begin(self, operation: str, queue: str) -> None:
        self.requests.append(operation)
        if self.throttled:
            self.throttled -= 1
            raise _error("TooManyRequestsException", 429, operation)
        if queue != QUEUE:
            raise _error("ClientException", 400, operation)


def _error(code: str, status: int, operation: str) -> ClientError:
    return ClientError(
        {
            "Error": {"Code": code, "Message": "because"},
            "ResponseMetadata": {
                "HTTPStatusCode": status,
                "RequestId": "1",
                "HostId": "",
                "HTTPHeaders": {},
                "RetryAttempts": 0,
            },
        },
        operation,
    )
