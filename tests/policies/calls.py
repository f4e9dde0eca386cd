"""Recorded calls, and what IAM asks for each: the action and the resource it is checked against.

https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html
https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonsqs.html
https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsbatch.html
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ACTIONS: Mapping[tuple[str, str], str] = {
    ("s3", "GetObject"): "s3:GetObject",
    ("s3", "PutObject"): "s3:PutObject",
    ("s3", "DeleteObject"): "s3:DeleteObject",
    ("s3", "ListObjectsV2"): "s3:ListBucket",
    ("sqs", "ReceiveMessage"): "sqs:ReceiveMessage",
    ("sqs", "DeleteMessage"): "sqs:DeleteMessage",
    ("sqs", "ChangeMessageVisibility"): "sqs:ChangeMessageVisibility",
    ("sqs", "GetQueueAttributes"): "sqs:GetQueueAttributes",
    ("sqs", "SendMessageBatch"): "sqs:SendMessage",
    ("batch", "ListJobs"): "batch:ListJobs",
    ("batch", "SubmitJob"): "batch:SubmitJob",
    ("batch", "DescribeJobQueues"): "batch:DescribeJobQueues",
    ("batch", "DescribeJobDefinitions"): "batch:DescribeJobDefinitions",
    ("batch", "DescribeComputeEnvironments"): "batch:DescribeComputeEnvironments",
    ("sns", "Publish"): "sns:Publish",
    ("cloudformation", "DescribeStacks"): "cloudformation:DescribeStacks",
    ("s3", "GetBucketNotificationConfiguration"): "s3:GetBucketNotification",
    ("lambda", "GetFunctionConfiguration"): "lambda:GetFunctionConfiguration",
    ("lambda", "ListEventSourceMappings"): "lambda:ListEventSourceMappings",
    ("ecr", "DescribeImages"): "ecr:DescribeImages",
    ("service-quotas", "GetServiceQuota"): "servicequotas:GetServiceQuota",
}
"""Operations that the product uses; another one fails the test until it has its row."""

FREE = {("sts", "GetCallerIdentity")}
"""Nobody needs a permission for it.
https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
"""
WHERE = "us-east-1:123456789012"


@dataclass(frozen=True)
class Need:
    """One permission, on one resource."""

    action: str
    resource: str


@dataclass(frozen=True)
class Call:
    """One call of one process."""

    caller: str
    service: str
    operation: str
    parameters: Mapping[str, str]

    @property
    def needs(self) -> tuple[Need, ...]:
        if (self.service, self.operation) in FREE:
            return ()
        action = ACTIONS[self.service, self.operation]
        needs = tuple(Need(action, resource) for resource in self._resources(action))
        if "IfMatch" in self.parameters:  # S3 reads what it compares
            return *needs, Need("s3:GetObject", needs[0].resource)
        return needs

    def _resources(self, action: str) -> tuple[str, ...]:
        """Return what the action is checked against; "*" where it knows no resources."""
        of = RESOURCES.get(action) or RESOURCES.get(self.service)
        return ("*",) if of is None else of(self.parameters)


def _s3(said: Mapping[str, str]) -> tuple[str, ...]:
    bucket = f"arn:aws:s3:::{said['Bucket']}"
    return (f"{bucket}/{said['Key']}" if "Key" in said else bucket,)


def _quota(said: Mapping[str, str]) -> tuple[str, ...]:
    return (f"arn:aws:servicequotas:{WHERE}:{said['ServiceCode']}/{said['QuotaCode']}",)


def _start(said: Mapping[str, str]) -> tuple[str, ...]:
    queue = _logical_id(said["jobQueue"])
    return f"WorkerFleet.Outputs.{queue}", "WorkerFleet.Outputs.JobDefinition"


def _logical_id(name: str) -> str:
    """Return how the templates name what the local run has not; its name here ends in that."""
    return name.rpartition("-")[2]


RESOURCES: Mapping[str, Callable[[Mapping[str, str]], tuple[str, ...]]] = {
    "s3": _s3,
    "sqs": lambda said: (said["QueueUrl"].rpartition("/")[2],),
    "sns": lambda said: (_logical_id(said["TopicArn"]),),
    "cloudformation": lambda said: (
        f"arn:aws:cloudformation:{WHERE}:stack/{said['StackName']}/id",
    ),
    "ecr": lambda said: (f"arn:aws:ecr:{WHERE}:repository/{said['repositoryName']}",),
    "service-quotas": _quota,
    "batch:SubmitJob": _start,
    "lambda:GetFunctionConfiguration": lambda said: (f"{_logical_id(said['FunctionName'])}.Arn",),
}
"""By action or service; what is in neither knows no resources."""


def read_calls(folder: Path) -> Iterator[Call]:
    """Yield every call that was written down; a line cut off by a SIGKILL was never made."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            yield Call(**json.loads(line))
