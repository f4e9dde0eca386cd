from pathlib import Path

import pytest

from infra.local.template import BadTemplate, QueueUrl
from infra.local.topology import (
    Notification,
    QueueSource,
    Redrive,
    Topology,
    rate_seconds,
    read_topology,
)

BUCKET = """
  Store: {Type: AWS::S3::Bucket, Properties: {BucketName: store}}
"""
FUNCTION = """
  Work: {Type: AWS::SQS::Queue}
  Go:
    Type: AWS::Serverless::Function
    Properties:
      Handler: m.f
      Events: EVENTS
"""


def read(tmp_path: Path, resources: str) -> Topology:
    path = tmp_path / "template.yaml"
    path.write_text("Resources:" + resources, encoding="utf-8")
    return read_topology(path, parameters={})


def test_the_laptop_gets_its_own_numbers() -> None:
    topology = read_topology()
    assert topology.queues["SubtasksQueue"].visibility_seconds == 5
    assert topology.queues["ResultsQueue"].visibility_seconds == 30
    assert topology.queues["SubtasksQueue"].redrive == Redrive("SubtasksDeadLetterQueue", 25)
    assert {f.timeout_seconds for f in topology.functions.values()} == {5}
    reconcile = topology.functions["ReconcileFunction"]
    assert (reconcile.schedule_seconds, reconcile.event_sources) == (2, ())
    assert reconcile.environment["SPOTGRAD_LEASE_SECONDS"] == "5"
    assert reconcile.environment["SPOTGRAD_SUBTASKS_QUEUE_URL"] == QueueUrl("SubtasksQueue")


def test_the_cloud_gets_the_templates_defaults() -> None:
    topology = read_topology(parameters={})
    assert topology.queues["SubtasksQueue"].visibility_seconds == 120
    assert {f.timeout_seconds for f in topology.functions.values()} == {60}
    assert topology.functions["ReconcileFunction"].schedule_seconds == 60
    assert topology.functions["AggregateFunction"].event_sources == (
        QueueSource("ResultsQueue", 10, 1, 2, report_batch_item_failures=True),
    )
    assert topology.functions["AggregateFunction"].handler == "functions.aggregate.app.handler"
    assert topology.functions["AggregateFunction"].memory_mb == 1769
    assert topology.functions["PlanFunction"].memory_mb == 512


def test_what_the_bucket_announces() -> None:
    bucket = read_topology().bucket
    assert bucket.name == "spotgrad-123456789012-us-east-1"
    created = ("s3:ObjectCreated:*",)
    assert bucket.notifications == (
        Notification("UploadsQueue", created, "jobs/", ".yaml"),
        Notification("UploadsQueue", created, "jobs/", ".yml"),
        Notification("UploadsQueue", created, "jobs/", "control.json"),
        Notification("ResultsQueue", created, "results/", ".safetensors"),
    )


def test_aws_defaults_fill_what_is_not_written(tmp_path: Path) -> None:
    event = "{A: {Type: SQS, Properties: {Queue: !GetAtt Work.Arn}}}"
    topology = read(tmp_path, BUCKET + FUNCTION.replace("EVENTS", event))
    queue, function = topology.queues["Work"], topology.functions["Go"]
    assert (queue.visibility_seconds, queue.retention_seconds, queue.redrive) == (30, 345_600, None)
    assert (function.timeout_seconds, function.memory_mb, function.environment) == (3, 128, {})
    assert function.event_sources == (
        QueueSource("Work", 10, 0, 2, report_batch_item_failures=False),
    )
    assert topology.bucket.notifications == ()


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ("{A: {Type: Api, Properties: {}}}", "Go: .*no event of type Api"),
        ("{A: {Type: SQS, Properties: {Queue: arn:x}}}", "arn:x: no queue"),
        (
            "{A: {Type: SQS, Properties: {Queue: !GetAtt Work.Arn, FilterCriteria: {}}}}",
            "does not act on FilterCriteria",
        ),
        (
            "{A: {Type: Schedule, Properties: {Schedule: rate(1 minute)}},"
            " B: {Type: Schedule, Properties: {Schedule: rate(2 minutes)}}}",
            "Go: .*one schedule",
        ),
    ],
)
def test_unknown_events_are_refused(tmp_path: Path, events: str, complaint: str) -> None:
    with pytest.raises(BadTemplate, match=complaint):
        read(tmp_path, BUCKET + FUNCTION.replace("EVENTS", events))


@pytest.mark.parametrize(
    ("resources", "complaint"),
    [
        ("\n  Work: {Type: AWS::SQS::Queue}\n", "one bucket, the template has 0"),
        (BUCKET + BUCKET.replace("Store", "Other"), "one bucket, the template has 2"),
        (
            BUCKET.replace(
                "BucketName: store",
                "BucketName: s, NotificationConfiguration: {LambdaConfigurations: []}",
            ),
            "only notifications to queues",
        ),
    ],
)
def test_other_buckets_are_refused(tmp_path: Path, resources: str, complaint: str) -> None:
    with pytest.raises(BadTemplate, match=complaint):
        read(tmp_path, resources)


@pytest.mark.parametrize(
    ("expression", "seconds"),
    [
        ("rate(1 minute)", 60),
        ("rate(5 minutes)", 300),
        ("rate(2 seconds)", 2),
        ("rate(1 day)", 86400),
    ],
)
def test_rates(expression: str, seconds: int) -> None:
    assert rate_seconds(expression) == seconds


@pytest.mark.parametrize("expression", ["cron(0 12 * * ? *)", "rate(0 minutes)", "1 minute", ""])
def test_other_schedules_are_refused(expression: str) -> None:
    with pytest.raises(BadTemplate, match="rate"):
        rate_seconds(expression)
