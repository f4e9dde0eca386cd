"""Facts about a deployment, read from AWS: CloudFormation, S3, SQS, Lambda, Batch, ECR and quotas.

Reads alone; for people, so each client is made when it is first needed. No verdicts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal

import boto3

from spotgrad.aws.clients import make_session
from spotgrad.aws.facts import (
    VERSION_TAG,
    EnvironmentFacts,
    FunctionFacts,
    JobQueueFacts,
    Listener,
    QueueFacts,
    StackFacts,
    WorkerFacts,
)
from spotgrad.aws.translate import translated
from spotgrad.errors import NotFound
from spotgrad.settings import MissingSetting

__all__ = ["AwsAccount"]

# https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html
ECR: Final = re.compile(
    r"(?P<account>[0-9]{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/"
    r"(?P<repository>[^:@]+)(:(?P<tag>[^@]+))?(@(?P<digest>sha256:[0-9a-f]{64}))?"
)
DEPTHS: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


class AwsAccount:
    """``spotgrad.aws.facts.Account`` as the environment and ``~/.aws`` describe it."""

    def __init__(self) -> None:
        self._clients: dict[tuple[str, str | None], Any] = {}

    @cached_property
    def _session(self) -> boto3.session.Session:
        return make_session()

    @property
    def region(self) -> str:
        """Return the region that is asked; not the client's own, for STS makes one up."""
        with translated("read the configuration of AWS"):
            region: str | None = self._session.region_name
        if region is None:
            raise MissingSetting("AWS: no region is chosen; set AWS_REGION")
        return region

    def identity(self) -> str:
        """Return who asks: the ARN of the credentials."""
        with translated("ask who the credentials belong to"):
            arn: str = self._client("sts").get_caller_identity()["Arn"]
            return arn

    def stack(self, name: str) -> StackFacts:
        """Return a stack; raises ``MissingSetting`` when there is none of this name."""
        with translated(f"describe stack {name}"):
            found = self._client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]
        tags = {tag["Key"]: tag["Value"] for tag in found.get("Tags", ())}
        outputs = {row["OutputKey"]: row["OutputValue"] for row in found.get("Outputs", ())}
        return StackFacts(name, found["StackStatus"], outputs, tags.get(VERSION_TAG))

    def listeners(self, bucket: str) -> Sequence[Listener]:
        """Return a bucket's notifications of created objects to queues."""
        with translated(f"read the notifications of bucket {bucket}"):
            found = self._client("s3").get_bucket_notification_configuration(Bucket=bucket)
        return [
            _listener(row)
            for row in found.get("QueueConfigurations", ())
            if any(event.startswith("s3:ObjectCreated:") for event in row["Events"])
        ]

    def queue(self, url: str) -> QueueFacts:
        """Return a queue; raises ``MissingSetting`` when it is gone."""
        with translated(f"describe queue {url}"):
            answer = self._client("sqs").get_queue_attributes(
                QueueUrl=url, AttributeNames=["QueueArn", "RedrivePolicy", "Policy", *DEPTHS]
            )
        said = answer["Attributes"]
        redrive = re.search(r'"deadLetterTargetArn"\s*:\s*"([^"]+)"', said.get("RedrivePolicy", ""))
        return QueueFacts(
            arn=said["QueueArn"],
            depth=sum(int(said[name]) for name in DEPTHS),
            redrives_to=redrive[1] if redrive else None,
            policy=said.get("Policy", ""),
        )

    def function(self, name: str) -> FunctionFacts:
        """Return a function; raises ``NotFound`` when it is gone."""
        client = self._client("lambda")
        with translated(f"describe function {name}"):
            found = client.get_function_configuration(FunctionName=name)
            mappings = client.list_event_source_mappings(FunctionName=name)["EventSourceMappings"]
        sources = {row["EventSourceArn"]: row["State"] for row in mappings}
        state, update = found.get("State", "Active"), found.get("LastUpdateStatus", "Successful")
        return FunctionFacts(state, update, sources)

    def job_queue(self, arn: str) -> JobQueueFacts:
        """Return a job queue; raises ``NotFound`` when it is gone."""
        with translated(f"describe job queue {arn}"):
            queues = self._client("batch").describe_job_queues(jobQueues=[arn])["jobQueues"]
        queue = _only(queues, f"job queue {arn}")
        order = sorted(queue["computeEnvironmentOrder"], key=lambda row: int(row["order"]))
        names = [row["computeEnvironment"] for row in order]
        environments = tuple(map(self._environment, names))
        return JobQueueFacts(
            queue["state"], queue["status"], queue.get("statusReason", ""), environments
        )

    def worker(self, definition: str) -> WorkerFacts:
        """Return what a job definition describes; raises ``NotFound`` when it is gone."""
        with translated(f"describe job definition {definition}"):
            answer = self._client("batch").describe_job_definitions(jobDefinitions=[definition])
        found = _only(answer["jobDefinitions"], f"job definition {definition}")
        container = found["containerProperties"]
        needs = {row["type"]: row["value"] for row in container.get("resourceRequirements", ())}
        vcpus = int(needs.get("VCPU") or container.get("vcpus") or 0)
        return WorkerFacts(container["image"], vcpus, int(needs.get("GPU", 0)))

    def image(self, uri: str) -> Literal["present", "absent", "elsewhere"]:
        """Return whether an image lies in its ECR repository; of other registries nothing."""
        parts = ECR.fullmatch(uri)
        if parts is None:
            return "elsewhere"
        named = (
            {"imageDigest": parts["digest"]}
            if parts["digest"]
            else {"imageTag": parts["tag"] or "latest"}
        )
        try:
            with translated(f"look for image {uri}"):
                self._client("ecr", parts["region"]).describe_images(
                    registryId=parts["account"],
                    repositoryName=parts["repository"],
                    imageIds=[named],
                )
        except NotFound:
            return "absent"
        return "present"

    def quota_vcpus(self, code: str) -> float:
        """Return the value of one of EC2's quotas."""
        with translated(f"read quota {code}"):
            answer = self._client("service-quotas").get_service_quota(
                ServiceCode="ec2", QuotaCode=code
            )
        return float(answer["Quota"]["Value"])

    def _environment(self, name: str) -> EnvironmentFacts:
        with translated(f"describe compute environment {name}"):
            answer = self._client("batch").describe_compute_environments(computeEnvironments=[name])
        found = _only(answer["computeEnvironments"], f"compute environment {name}")
        resources = found.get("computeResources", {})
        return EnvironmentFacts(
            name=found["computeEnvironmentName"],
            state=found["state"],
            status=found["status"],
            reason=found.get("statusReason", ""),
            kind=resources.get("type", ""),
            instance_types=tuple(resources.get("instanceTypes", ())),
        )

    def _client(self, service: str, region: str | None = None) -> Any:
        key = (service, region)
        if key not in self._clients:
            with translated(f"connect to {service}"):
                make: Any = self._session.client  # its overloads know literal names alone
                self._clients[key] = make(service, region_name=region)
        return self._clients[key]


def _listener(row: Mapping[str, Any]) -> Listener:
    filters = dict(_rules(row))
    return Listener(row["QueueArn"], filters.get("prefix", ""), filters.get("suffix", ""))


def _rules(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for rule in row.get("Filter", {}).get("Key", {}).get("FilterRules", ()):
        yield rule["Name"].lower(), rule["Value"]  # S3 answers in either case


def _only(found: Sequence[Any], what: str) -> Any:
    if not found:
        raise NotFound(f"{what}: there is none in this region")
    return found[0]
