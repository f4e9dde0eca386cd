"""A deployed stack in the words of the local run's topology, so that the two can be compared.

Everything is asked of the deployed services, never of the template: queues by their attributes,
functions by their configuration, event sources by their mappings, the schedule by its rule.
"""

import json
from collections.abc import Mapping
from typing import Any

from infra.local.template import QueueUrl
from infra.local.topology import (
    BucketResource,
    FunctionResource,
    Notification,
    QueueResource,
    QueueSource,
    Redrive,
    Topology,
    rate_seconds,
)
from tests.deployed.cloud import Deployed


def deployed_topology(stack: Deployed, wanted: Topology) -> Topology:
    """Return what is deployed of the queues and functions that ``wanted`` names.

    Names of queues are generated and differ by nature: ``wanted``'s stand for them, found by the
    logical id. Everything else is the services' own answer.
    """
    queues = {name: _attributes(stack, name) for name in wanted.queues}
    by_arn = {attributes["QueueArn"]: name for name, attributes in queues.items()}
    return Topology(
        bucket=_bucket(stack, by_arn),
        queues={
            name: _queue(wanted.queues[name], attributes, by_arn)
            for name, attributes in queues.items()
        },
        functions={name: _function(stack, name, by_arn) for name in wanted.functions},
    )


def _attributes(stack: Deployed, name: str) -> Mapping[str, str]:
    answer = stack.clients.sqs.get_queue_attributes(
        QueueUrl=stack.physical_ids[name], AttributeNames=["All"]
    )
    return {str(key): value for key, value in answer["Attributes"].items()}


def _queue(
    wanted: QueueResource, attributes: Mapping[str, str], by_arn: Mapping[str, str]
) -> QueueResource:
    policy = json.loads(attributes.get("RedrivePolicy", "null"))
    return QueueResource(
        name=wanted.name,
        arn=wanted.arn,
        visibility_seconds=int(attributes["VisibilityTimeout"]),
        retention_seconds=int(attributes["MessageRetentionPeriod"]),
        redrive=policy
        and Redrive(by_arn[policy["deadLetterTargetArn"]], int(policy["maxReceiveCount"])),
    )


def _bucket(stack: Deployed, by_arn: Mapping[str, str]) -> BucketResource:
    wiring = stack.clients.s3.get_bucket_notification_configuration(Bucket=stack.bucket)
    assert set(wiring) - {"ResponseMetadata"} == {"QueueConfigurations"}
    found = []
    for entry in wiring["QueueConfigurations"]:
        rules = entry["Filter"]["Key"]["FilterRules"]
        named = {rule["Name"].lower(): rule["Value"] for rule in rules}
        events = tuple(str(event) for event in entry["Events"])
        found.append(
            Notification(by_arn[entry["QueueArn"]], events, named["prefix"], named["suffix"])
        )
    return BucketResource(stack.bucket, tuple(found))


def _function(stack: Deployed, name: str, by_arn: Mapping[str, str]) -> FunctionResource:
    functions, physical = stack.client("lambda"), stack.physical_ids[name]
    found = functions.get_function_configuration(FunctionName=physical)
    sources = functions.list_event_source_mappings(FunctionName=physical)["EventSourceMappings"]
    urls = {stack.physical_ids[queue].rpartition("/")[2]: queue for queue in by_arn.values()}
    return FunctionResource(
        logical_id=name,
        handler=found["Handler"],
        timeout_seconds=int(found["Timeout"]),
        memory_mb=int(found["MemorySize"]),
        environment={
            key: _value(text, urls) for key, text in found["Environment"]["Variables"].items()
        },
        event_sources=tuple(_source(source, by_arn) for source in sources),
        schedule_seconds=_schedule(stack, found["FunctionArn"]),
    )


def _value(text: str, urls: Mapping[str, str]) -> str | QueueUrl:
    queue = urls.get(text.rpartition("/")[2])
    return QueueUrl(queue) if queue is not None else text


def _source(source: Mapping[str, Any], by_arn: Mapping[str, str]) -> QueueSource:
    return QueueSource(
        queue=by_arn[source["EventSourceArn"]],
        batch_size=int(source["BatchSize"]),
        batching_window_seconds=int(source["MaximumBatchingWindowInSeconds"]),
        maximum_concurrency=int(source["ScalingConfig"]["MaximumConcurrency"]),
        report_batch_item_failures="ReportBatchItemFailures" in source["FunctionResponseTypes"],
    )


def _schedule(stack: Deployed, arn: str) -> int | None:
    events = stack.client("events")
    names = events.list_rule_names_by_target(TargetArn=arn)["RuleNames"]
    rates = [events.describe_rule(Name=name)["ScheduleExpression"] for name in names]
    assert len(rates) <= 1
    return rate_seconds(rates[0]) if rates else None
