"""The checks of ``spotgrad doctor``: each says in a line what is well, or raises what is not.

No order and no output (``doctor``), no AWS (``spotgrad.aws.account`` answers). A check reads what
it judges and changes nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from spotgrad.aws.facts import Account, JobQueueFacts, QueueFacts, StackFacts
from spotgrad.cli.quotas import quotas_of
from spotgrad.errors import Reject

__all__ = ["QUEUES", "Site", "Trouble"]

QUEUES: Final = ("Uploads", "Subtasks", "Results")
WIRED: Final = {
    ("jobs/", ".yaml"): "Uploads",
    ("jobs/", ".yml"): "Uploads",
    ("jobs/", "control.json"): "Uploads",
    ("results/", ".safetensors"): "Results",
}
"""What the bucket must announce, and where."""
FED: Final = {"Plan": "Uploads", "Aggregate": "Results", "Reconcile": None}
HAND: Final = "no fleet: workers are started by hand"
DEPLOY: Final = "deploy again: spotgrad deploy"


class Trouble(Reject):
    """A check that failed, and what a person does about it."""

    def __init__(self, detail: str, remedy: str) -> None:
        super().__init__(detail)
        self.remedy = remedy


@dataclass(frozen=True)
class Site:
    """One deployment, as its stack tells of it; what was read is not read again."""

    account: Account
    name: str
    installed: str
    """The version of this command line."""

    @cached_property
    def stack(self) -> StackFacts:
        """Return the stack."""
        return self.account.stack(self.name)

    @cached_property
    def fleet(self) -> JobQueueFacts | None:
        """Return the workers' job queue; None without a fleet."""
        arn = self.stack.outputs.get("WorkerJobQueue")
        return self.account.job_queue(arn) if arn else None

    @cached_property
    def on_demand(self) -> JobQueueFacts | None:
        """Return the queue of workers that may not be interrupted; None without one."""
        arn = self.stack.outputs.get("WorkerOnDemandJobQueue")
        return self.account.job_queue(arn) if arn else None

    @cached_property
    def queues(self) -> Mapping[str, QueueFacts]:
        """Return the queues and their dead-letter queues, by name."""
        names = [f"{name}{kind}" for name in QUEUES for kind in ("", "DeadLetter")]
        return {name: self.account.queue(self.output(f"{name}QueueUrl")) for name in names}

    def output(self, name: str) -> str:
        """Return one of the stack's outputs; raises ``Trouble`` when it has none of this name."""
        if name not in self.stack.outputs:
            raise Trouble(f"stack {self.name} has no output {name}", DEPLOY)
        return self.stack.outputs[name]

    def check_credentials(self) -> str:
        """Return whose they are."""
        return self.account.identity()

    def check_region(self) -> str:
        """Return the region, which is that of all that follows."""
        return self.account.region

    def check_stack(self) -> str:
        """Return the stack's state, when it is at rest and whole."""
        status = self.stack.status
        if not status.endswith("_COMPLETE") or status in ("ROLLBACK_COMPLETE", "DELETE_COMPLETE"):
            raise Trouble(
                f"{self.name} is {status}",
                "wait while it is IN_PROGRESS; else read its events (sam list stack-outputs, or the"
                " CloudFormation console) and deploy again",
            )
        return f"{self.name} is {status}"

    def check_versions(self) -> str:
        """Return the versions, when the functions are of this command line's."""
        deployed = self.stack.version
        if deployed is not None and deployed != self.installed:
            raise Trouble(
                f"the stack runs spotgrad {deployed}, this is {self.installed}",
                f"{DEPLOY}, or use the command line of {deployed}",
            )
        known = deployed or "by sam itself: its version is not noted"
        return f"spotgrad {self.installed}, deployed {known}"

    def check_bucket(self) -> str:
        """Return the bucket, when it is there and may be read."""
        bucket = self.output("BucketName")
        self.account.listeners(bucket)
        return bucket

    def check_queues(self) -> str:
        """Return how full the queues are, when each has its dead-letter queue."""
        for name in QUEUES:
            wanted, found = self.queues[f"{name}DeadLetter"].arn, self.queues[name].redrives_to
            if found != wanted:
                raise Trouble(f"{name}Queue sends its dead letters to {found or 'nobody'}", DEPLOY)
        depths = ", ".join(f"{name.lower()} {self.queues[name].depth}" for name in QUEUES)
        dead = sum(self.queues[f"{name}DeadLetter"].depth for name in QUEUES)
        return f"{depths}; dead letters {dead}"

    def check_notifications(self) -> str:
        """Return what is wired, when every upload reaches the queue that waits for it."""
        bucket = self.output("BucketName")
        found = {(one.prefix, one.suffix): one.queue_arn for one in self.account.listeners(bucket)}
        for (prefix, suffix), name in WIRED.items():
            queue = self.queues[name]
            if found.get((prefix, suffix)) != queue.arn:
                raise Trouble(f"{prefix}*{suffix} is not announced to {name}Queue", DEPLOY)
            if "s3.amazonaws.com" not in queue.policy:
                raise Trouble(f"{name}Queue takes nothing from S3: it has no such policy", DEPLOY)
        return f"{len(WIRED)} kinds of upload reach their queues"

    def check_functions(self) -> str:
        """Return the functions, when they are active and fed by their queues."""
        for name, source in FED.items():
            facts = self.account.function(self.output(f"{name}FunctionName"))
            if facts.state not in ("Active", "Inactive") or facts.update == "Failed":
                raise Trouble(f"{name}Function is {facts.state}, its update {facts.update}", DEPLOY)
            if source is not None and facts.sources.get(self.queues[source].arn) != "Enabled":
                state = facts.sources.get(self.queues[source].arn, "missing")
                raise Trouble(
                    f"{name}Function is not fed by {source}Queue: its mapping is {state}",
                    "enable the function's trigger in the Lambda console, or deploy again",
                )
        return ", ".join(FED)

    def check_fleet(self) -> str:
        """Return the compute environments, when the queues and all of them work."""
        if self.fleet is None:
            return HAND
        for name, queue in (("", self.fleet), ("on-demand ", self.on_demand)):
            if queue is not None and not queue.works:
                raise Trouble(
                    f"the {name}job queue is {queue}",
                    "enable it in the Batch console, or deploy again",
                )
        for one in self.fleet.environments:
            if not one.works:
                raise Trouble(
                    f"compute environment {one.name} is {one}",
                    "enable it, or mend what its reason names: role, subnets, instance types",
                )
        return ", ".join(f"{one.name} VALID" for one in self.fleet.environments)

    def check_image(self) -> str:
        """Return the workers' image, when it is where they pull it from."""
        if self.fleet is None:
            return HAND
        image = self.account.worker(self.output("WorkerJobDefinition")).image
        found = self.account.image(image)
        if found == "absent":
            raise Trouble(f"{image} is not in its repository", "build the image and push it")
        return image if found == "present" else f"{image} (not in ECR: not looked for)"

    def check_quota(self) -> str:
        """Return the vCPU quotas, when those of the first environment leave room for a worker."""
        if self.fleet is None:
            return HAND
        vcpus = self.account.worker(self.output("WorkerJobDefinition")).vcpus
        said = list(self._quotas())
        if said and all(value < vcpus for _, value in said):
            lacking = "; ".join(f"{name}: {value:g}" for name, value in said)
            raise Trouble(
                f"{lacking} vCPUs, and a worker needs {vcpus}",
                "request a higher quota (Service Quotas console, Amazon EC2), or allow other types",
            )
        quotas = "; ".join(f"{name}: {value:g} vCPUs" for name, value in said)
        return f"{quotas or 'none is known for these types'}; a worker needs {vcpus}"

    def _quotas(self) -> Iterator[tuple[str, float]]:
        environments = () if self.fleet is None else self.fleet.environments
        for first in environments[:1]:
            for quota in quotas_of(first.kind, first.instance_types):
                yield quota.name, self.account.quota_vcpus(quota.code)
