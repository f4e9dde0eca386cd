"""An account in memory with one healthy deployment; tests break it, one thing at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from spotgrad.aws.facts import (
    EnvironmentFacts,
    FunctionFacts,
    JobQueueFacts,
    Listener,
    QueueFacts,
    StackFacts,
    WorkerFacts,
)
from spotgrad.errors import NotFound, SpotgradError
from spotgrad.settings import MissingSetting

NAMES = ("Uploads", "Subtasks", "Results")
FUNCTIONS = {"Plan": "Uploads", "Aggregate": "Results", "Reconcile": None}
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/spotgrad:1"
SPOT_G = "L-3819A6DF"
POLICY = '{"Statement": [{"Principal": {"Service": "s3.amazonaws.com"}}]}'


def arn_of(queue: str) -> str:
    return f"arn:aws:sqs:us-east-1:123456789012:{queue}Queue"


def outputs() -> dict[str, str]:
    queues = [f"{name}{kind}" for name in NAMES for kind in ("", "DeadLetter")]
    return {
        "BucketName": "spotgrad-bucket",
        **{f"{name}QueueUrl": f"https://sqs/{name}" for name in queues},
        **{f"{name}FunctionName": name.lower() for name in FUNCTIONS},
        "WorkerJobQueue": "job-queue",
        "WorkerJobDefinition": "job-definition:1",
    }


def queue(name: str) -> QueueFacts:
    dead = None if name.endswith("DeadLetter") else arn_of(f"{name}DeadLetter")
    return QueueFacts(arn_of(name), 0, dead, POLICY)


def environment(**changes: Any) -> EnvironmentFacts:
    healthy = EnvironmentFacts("ENABLED", "VALID", "", "spot", "SPOT", ("g4dn", "g5", "g6"))
    return replace(healthy, **changes)


def _listeners() -> list[Listener]:
    return [
        Listener(arn_of("Uploads"), "jobs/", ".yaml"),
        Listener(arn_of("Uploads"), "jobs/", ".yml"),
        Listener(arn_of("Uploads"), "jobs/", "control.json"),
        Listener(arn_of("Results"), "results/", ".safetensors"),
    ]


def _functions() -> dict[str, FunctionFacts]:
    return {
        name.lower(): FunctionFacts(
            "Active", "Successful", {} if source is None else {arn_of(source): "Enabled"}
        )
        for name, source in FUNCTIONS.items()
    }


@dataclass
class FakeAccount:
    """``spotgrad.aws.facts.Account``.

    Attributes:
        failing: questions that end in this error instead of an answer.
        asked: every question, in order.
    """

    region: str = "us-east-1"
    stacks: dict[str, StackFacts] = field(
        default_factory=lambda: {
            "spotgrad": StackFacts("spotgrad", "UPDATE_COMPLETE", outputs(), "1.2.3")
        }
    )
    notifications: list[Listener] = field(default_factory=_listeners)
    queues: dict[str, QueueFacts] = field(
        default_factory=lambda: {
            f"https://sqs/{name}{kind}": queue(f"{name}{kind}")
            for name in NAMES
            for kind in ("", "DeadLetter")
        }
    )
    functions: dict[str, FunctionFacts] = field(default_factory=_functions)
    fleet: JobQueueFacts = field(
        default_factory=lambda: JobQueueFacts("ENABLED", "VALID", "", (environment(),))
    )
    on_demand: JobQueueFacts = field(
        default_factory=lambda: JobQueueFacts("ENABLED", "VALID", "", (environment(kind="EC2"),))
    )
    workers: WorkerFacts = field(default_factory=lambda: WorkerFacts(IMAGE, 4, 1))
    images: set[str] = field(default_factory=lambda: {IMAGE})
    quotas: dict[str, float] = field(default_factory=lambda: {SPOT_G: 64.0})
    failing: dict[str, SpotgradError] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def identity(self) -> str:
        self._ask("identity")
        return "arn:aws:iam::123456789012:user/somebody"

    def stack(self, name: str) -> StackFacts:
        self._ask("stack")
        if name not in self.stacks:
            raise MissingSetting(f"describe stack {name}: there is none")
        return self.stacks[name]

    def listeners(self, bucket: str) -> Sequence[Listener]:
        self._ask("listeners")
        if bucket != "spotgrad-bucket":
            raise MissingSetting(f"{bucket}: there is none")
        return self.notifications

    def queue(self, url: str) -> QueueFacts:
        self._ask("queue")
        return self.queues[url]

    def function(self, name: str) -> FunctionFacts:
        self._ask("function")
        if name not in self.functions:
            raise NotFound(f"describe function {name}: there is none")
        return self.functions[name]

    def job_queue(self, arn: str) -> JobQueueFacts:
        self._ask("job_queue")
        queues = {"job-queue": self.fleet, "on-demand": self.on_demand}
        if arn not in queues:
            raise NotFound(f"job queue {arn}: there is none in this region")
        return queues[arn]

    def worker(self, definition: str) -> WorkerFacts:
        self._ask("worker")
        if definition != "job-definition:1":
            raise NotFound(f"job definition {definition}: there is none in this region")
        return self.workers

    def image(self, uri: str) -> Literal["present", "absent", "elsewhere"]:
        self._ask("image")
        if ".dkr.ecr." not in uri:
            return "elsewhere"
        return "present" if uri in self.images else "absent"

    def quota_vcpus(self, code: str) -> float:
        self._ask("quota_vcpus")
        return self.quotas[code]

    def _ask(self, question: str) -> None:
        self.asked.append(question)
        if question in self.failing:
            raise self.failing[question]
