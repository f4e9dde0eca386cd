"""What ``spotgrad doctor`` asks of an account: the facts, and who answers, without boto3.

Not the verdict (``spotgrad.cli.checks``) and not the asking (``spotgrad.aws.account``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

__all__ = [
    "VERSION_TAG",
    "Account",
    "BatchFacts",
    "EnvironmentFacts",
    "FunctionFacts",
    "JobQueueFacts",
    "Listener",
    "QueueFacts",
    "StackFacts",
    "WorkerFacts",
]

VERSION_TAG = "spotgrad:version"
"""The tag by which ``spotgrad deploy`` notes on a stack what it deployed."""


@dataclass(frozen=True)
class StackFacts:
    """One CloudFormation stack."""

    name: str
    status: str
    outputs: Mapping[str, str] = field(default_factory=dict)
    version: str | None = None
    """What ``VERSION_TAG`` says; None where somebody else deployed it."""


@dataclass(frozen=True)
class Listener:
    """One of a bucket's notifications to a queue, for created objects."""

    queue_arn: str
    prefix: str
    suffix: str


@dataclass(frozen=True)
class QueueFacts:
    """One SQS queue."""

    arn: str
    depth: int
    redrives_to: str | None = None
    """The ARN of its dead-letter queue."""
    policy: str = ""


@dataclass(frozen=True)
class FunctionFacts:
    """One Lambda function, and the queues that feed it: each one's ARN and the mapping's state."""

    state: str
    update: str
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BatchFacts:
    """How something in AWS Batch stands, in Batch's own words."""

    state: str
    status: str
    reason: str

    @property
    def works(self) -> bool:
        """Return whether Batch uses it."""
        return (self.state, self.status) == ("ENABLED", "VALID")

    def __str__(self) -> str:
        """Say how it stands."""
        return f"{self.state} and {self.status} {self.reason}".rstrip()


@dataclass(frozen=True)
class EnvironmentFacts(BatchFacts):
    """One compute environment."""

    name: str
    kind: str
    """SPOT or EC2 (on demand)."""
    instance_types: Sequence[str] = ()


@dataclass(frozen=True)
class JobQueueFacts(BatchFacts):
    """One job queue, and its environments in the order in which they are asked."""

    environments: Sequence[EnvironmentFacts] = ()


@dataclass(frozen=True)
class WorkerFacts:
    """What a worker is, as its job definition says."""

    image: str
    vcpus: int
    gpus: int


class Account(Protocol):
    """One account in one region. Every question may raise ``Retry``, ``AccessDenied`` and so on."""

    @property
    def region(self) -> str:
        """Return the region that is asked."""
        ...

    def identity(self) -> str:
        """Return who asks: the ARN of the credentials."""
        ...

    def stack(self, name: str) -> StackFacts:
        """Return a stack; raises ``MissingSetting`` when there is none of this name."""
        ...

    def listeners(self, bucket: str) -> Sequence[Listener]:
        """Return a bucket's notifications; raises ``MissingSetting`` without such a bucket."""
        ...

    def queue(self, url: str) -> QueueFacts:
        """Return a queue; raises ``MissingSetting`` when it is gone."""
        ...

    def function(self, name: str) -> FunctionFacts:
        """Return a function; raises ``NotFound`` when it is gone."""
        ...

    def job_queue(self, arn: str) -> JobQueueFacts:
        """Return a job queue; raises ``NotFound`` when it is gone."""
        ...

    def worker(self, definition: str) -> WorkerFacts:
        """Return what a job definition describes; raises ``NotFound`` when it is gone."""
        ...

    def image(self, uri: str) -> Literal["present", "absent", "elsewhere"]:
        """Return whether an image can be pulled; of registries but ECR nobody here knows."""
        ...

    def quota_vcpus(self, code: str) -> float:
        """Return the value of one of EC2's quotas."""
        ...
