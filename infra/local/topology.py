"""What the local run builds and drives, as plain values: the bucket, the queues, the functions.

Read from template.yaml, the same file that is deployed. Nothing here is created yet; queue URLs
stay ``QueueUrl`` until ``infra.local.cloud`` has made the queues.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from infra.local.template import BUCKET, QUEUE, BadTemplate, QueueUrl, Template, load_template

FUNCTION = "AWS::Serverless::Function"
TEMPLATE_PATH = Path(__file__).resolve().parents[2] / "template.yaml"

LOCAL_PARAMETERS: Mapping[str, str] = MappingProxyType(
    {
        "LeaseSeconds": "5",
        "FunctionTimeoutSeconds": "5",
        "FunctionQueueVisibilitySeconds": "30",
        "ReconcileSchedule": "rate(2 seconds)",
        "BatchingWindowSeconds": "0",
    }
)
"""A laptop's numbers for the template's parameters: nobody wants to wait a minute for a retry."""

CHAOS_PARAMETERS: Mapping[str, str] = MappingProxyType(
    {**LOCAL_PARAMETERS, "FunctionTimeoutSeconds": "20"}
)
"""Whoever is throttled waits half a second per request: reconcile alone makes dozens."""

LOCAL_PSEUDO: Mapping[str, str] = MappingProxyType(
    {
        "AWS::StackName": "spotgrad",
        "AWS::AccountId": "123456789012",  # moto's default account
        "AWS::Region": "us-east-1",
        "AWS::Partition": "aws",
    }
)

_DEFAULT_RETENTION_SECONDS = 345_600  # SQS: 4 days
_DEFAULT_VISIBILITY_SECONDS = 30  # SQS
_DEFAULT_TIMEOUT_SECONDS = 3  # AWS Lambda
_DEFAULT_BATCH_SIZE = 10  # AWS Lambda, for SQS
_DEFAULT_CONCURRENCY = 2  # the least that AWS Lambda takes as a maximum; enough for a laptop
_SOURCE_PROPERTIES = {
    "Queue",
    "BatchSize",
    "MaximumBatchingWindowInSeconds",
    "FunctionResponseTypes",
    "ScalingConfig",
}
_RATE = re.compile(r"rate\((\d+) (second|minute|hour|day)s?\)")
_UNIT_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}


@dataclass(frozen=True)
class Notification:
    """Objects whose key has this prefix and suffix are announced to this queue."""

    queue: str
    events: tuple[str, ...]
    prefix: str
    suffix: str

    def matches(self, key: str) -> bool:
        """Return whether an object under ``key`` would be announced."""
        return key.startswith(self.prefix) and key.endswith(self.suffix)


@dataclass(frozen=True)
class BucketResource:
    """The bucket and whom it tells about new objects."""

    name: str
    notifications: tuple[Notification, ...]


@dataclass(frozen=True)
class Redrive:
    """After ``max_receives`` deliveries a message moves to the queue ``target``."""

    target: str
    max_receives: int


@dataclass(frozen=True)
class QueueResource:
    """One SQS queue."""

    name: str
    arn: str
    visibility_seconds: int
    retention_seconds: int
    redrive: Redrive | None


@dataclass(frozen=True)
class QueueSource:
    """One SQS event source mapping of a function."""

    queue: str
    batch_size: int
    batching_window_seconds: int
    maximum_concurrency: int
    report_batch_item_failures: bool


@dataclass(frozen=True)
class FunctionResource:
    """One function and what invokes it: queues, a schedule, or both."""

    logical_id: str
    handler: str
    timeout_seconds: int
    memory_mb: int
    environment: Mapping[str, str | QueueUrl]
    event_sources: tuple[QueueSource, ...]
    schedule_seconds: int | None


@dataclass(frozen=True)
class Topology:
    """Everything of template.yaml that a local run needs; keys are logical ids."""

    bucket: BucketResource
    queues: Mapping[str, QueueResource]
    functions: Mapping[str, FunctionResource]


def read_topology(
    path: Path = TEMPLATE_PATH,
    *,
    parameters: Mapping[str, str] = LOCAL_PARAMETERS,
    pseudo: Mapping[str, str] = LOCAL_PSEUDO,
) -> Topology:
    """Read the topology; ``parameters`` override the template's defaults.

    Raises:
        BadTemplate: the template holds something that the local run cannot do.
    """
    template = load_template(path, parameters=parameters, pseudo=pseudo)
    arns = {name: template.arn(name) for name in template.of_type(QUEUE)}
    return Topology(
        bucket=_bucket(template, arns),
        queues={name: _queue(template, name, arns) for name in arns},
        functions={name: _function(template, name, arns) for name in template.of_type(FUNCTION)},
    )


def rate_seconds(expression: str) -> int:
    """Return the period of ``rate(2 minutes)`` in seconds (``seconds`` are for laptops only)."""
    match = _RATE.fullmatch(expression)
    if match is None or int(match[1]) < 1:
        raise BadTemplate(f"schedule {expression!r}: the local run knows rate(<n> <unit>) alone")
    return int(match[1]) * _UNIT_SECONDS[match[2]]


def _bucket(template: Template, arns: Mapping[str, str]) -> BucketResource:
    names = template.of_type(BUCKET)
    if len(names) != 1:
        raise BadTemplate(f"the local run wants one bucket, the template has {len(names)}")
    properties = template.properties(names[0])
    wiring = template.resolve(properties.get("NotificationConfiguration", {}))
    if set(wiring) - {"QueueConfigurations"}:
        raise BadTemplate(f"{names[0]}: the local run knows only notifications to queues")
    listeners = [_notification(entry, arns) for entry in wiring.get("QueueConfigurations", [])]
    return BucketResource(template.resolve(properties["BucketName"]), tuple(listeners))


def _notification(entry: Mapping[str, Any], arns: Mapping[str, str]) -> Notification:
    rules = entry.get("Filter", {}).get("S3Key", {}).get("Rules", [])
    filters = {rule["Name"].lower(): rule["Value"] for rule in rules}
    queue = _logical_id(arns, entry["Queue"])
    return Notification(
        queue, (entry["Event"],), filters.get("prefix", ""), filters.get("suffix", "")
    )


def _queue(template: Template, logical_id: str, arns: Mapping[str, str]) -> QueueResource:
    properties = template.resolve(template.properties(logical_id))
    policy = properties.get("RedrivePolicy")
    return QueueResource(
        name=template.queue_name(logical_id),
        arn=arns[logical_id],
        visibility_seconds=int(properties.get("VisibilityTimeout", _DEFAULT_VISIBILITY_SECONDS)),
        retention_seconds=int(properties.get("MessageRetentionPeriod", _DEFAULT_RETENTION_SECONDS)),
        redrive=Redrive(
            _logical_id(arns, policy["deadLetterTargetArn"]), int(policy["maxReceiveCount"])
        )
        if policy
        else None,
    )


def _function(template: Template, logical_id: str, arns: Mapping[str, str]) -> FunctionResource:
    shared, own = template.function_globals, template.properties(logical_id)
    variables = {**_variables(shared), **_variables(own)}
    merged = {**shared, **own}
    events = [template.resolve(event) for event in own.get("Events", {}).values()]
    return FunctionResource(
        logical_id=logical_id,
        handler=merged["Handler"],
        timeout_seconds=template.resolve(merged.get("Timeout", _DEFAULT_TIMEOUT_SECONDS)),
        memory_mb=template.resolve(merged.get("MemorySize", 128)),
        environment={name: _text(template.resolve(value)) for name, value in variables.items()},
        event_sources=tuple(
            _source(event["Properties"], arns) for event in events if event["Type"] == "SQS"
        ),
        schedule_seconds=_schedule(logical_id, events),
    )


def _variables(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    variables: Mapping[str, Any] = properties.get("Environment", {}).get("Variables", {})
    return variables


def _text(value: object) -> str | QueueUrl:
    return value if isinstance(value, QueueUrl) else str(value)


def _source(properties: Mapping[str, Any], arns: Mapping[str, str]) -> QueueSource:
    unknown = set(properties) - _SOURCE_PROPERTIES
    if unknown:
        raise BadTemplate(f"SQS event: the local run does not act on {unknown.pop()}")
    scaling = properties.get("ScalingConfig", {})
    return QueueSource(
        queue=_logical_id(arns, properties["Queue"]),
        batch_size=properties.get("BatchSize", _DEFAULT_BATCH_SIZE),
        batching_window_seconds=properties.get("MaximumBatchingWindowInSeconds", 0),
        maximum_concurrency=scaling.get("MaximumConcurrency", _DEFAULT_CONCURRENCY),
        report_batch_item_failures="ReportBatchItemFailures"
        in properties.get("FunctionResponseTypes", []),
    )


def _schedule(logical_id: str, events: list[dict[str, Any]]) -> int | None:
    unknown = {event["Type"] for event in events} - {"SQS", "Schedule"}
    if unknown:
        raise BadTemplate(f"{logical_id}: the local run knows no event of type {unknown.pop()}")
    schedules = [event["Properties"]["Schedule"] for event in events if event["Type"] == "Schedule"]
    if len(schedules) > 1:
        raise BadTemplate(f"{logical_id}: the local run drives one schedule per function")
    return rate_seconds(schedules[0]) if schedules else None


def _logical_id(arns: Mapping[str, str], arn: str) -> str:
    for name, known in arns.items():
        if known == arn:
            return name
    raise BadTemplate(f"{arn}: no queue of the template has this ARN")
