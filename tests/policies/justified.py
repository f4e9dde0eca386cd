"""What is allowed and yet not called in the recorded run, each with its reason.

A row is (principal, action, end of the resource); "" is any resource. A row that allows nothing any
more fails the test of this table.
"""

from collections.abc import Mapping
from types import MappingProxyType

from tests.policies.statements import Allowed

_MAPPING = "Lambda's event source mapping receives and deletes with the function's role"
_LOGS = "Lambda writes the function's log with its role"
_XRAY = "Lambda's X-Ray daemon sends with the function's role; X-Ray has no resources to name"
_AGENT = "the ECS agent on the instance, never our code"
_START = "ECS pulls the image and opens the log before our code runs"
_EXPIRY = "reconcile deletes only what is over an hour old, or expired after days"
_MENDS = "reconcile plans, merges and refuses what an event was lost for; none is here"

_NO_RESOURCES = "what lists and describes knows no resources"
_DEAD_LETTERS = "spotgrad dlq; no message dies in this run"

JUSTIFIED: Mapping[tuple[str, str, str], str] = MappingProxyType(
    {
        **{
            (role, action, queue): _MAPPING
            for role, queue in (("PlanRole", "UploadsQueue"), ("AggregateRole", "ResultsQueue"))
            for action in ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
        },
        **{
            (role, action, ""): reason
            for role in ("PlanRole", "AggregateRole", "ReconcileRole")
            for action, reason in (
                ("logs:CreateLogStream", _LOGS),
                ("logs:PutLogEvents", _LOGS),
                ("xray:PutTraceSegments", _XRAY),
                ("xray:PutTelemetryRecords", _XRAY),
            )
        },
        **{
            (role, f"batch:{action}", ""): _NO_RESOURCES
            for role in ("PlanRole", "ReconcileRole", "DoctorPolicy")
            for action in ("ListJobs", "DescribeJobQueues", "DescribeComputeEnvironments")
            if (role, action) != ("DoctorPolicy", "ListJobs")
        },
        ("DoctorPolicy", "batch:DescribeJobDefinitions", ""): _NO_RESOURCES,
        ("DoctorPolicy", "lambda:ListEventSourceMappings", ""): _NO_RESOURCES,
        ("DoctorPolicy", "ecr:DescribeImages", ""): "the image of this run is in no ECR",
        **{
            ("InstanceRole", action, ""): _AGENT
            for action in (
                "ecs:DeregisterContainerInstance",
                "ecs:RegisterContainerInstance",
                "ecs:SubmitAttachmentStateChanges",
                "ecs:SubmitContainerStateChange",
                "ecs:SubmitTaskStateChange",
                "ecs:Poll",
                "ecs:StartTelemetrySession",
                "ecs:UpdateContainerInstancesState",
                "ecs:TagResource",
                "ecs:DiscoverPollEndpoint",
                "ec2:DescribeTags",
            )
        },
        **{
            ("ExecutionRole", action, ""): _START
            for action in (
                "ecr:GetAuthorizationToken",
                "ecr:BatchCheckLayerAvailability",
                "ecr:BatchGetImage",
                "ecr:GetDownloadUrlForLayer",
                "logs:CreateLogStream",
                "logs:PutLogEvents",
            )
        },
        **{
            ("UserPolicy", action, f"{kind}DeadLetterQueue"): _DEAD_LETTERS
            for kind in ("Uploads", "Subtasks", "Results")
            for action in (
                "sqs:GetQueueUrl",
                "sqs:GetQueueAttributes",
                "sqs:ReceiveMessage",
                "sqs:DeleteMessage",
            )
        },
        **{
            ("UserPolicy", action, f"{kind}Queue"): _DEAD_LETTERS
            for kind in ("Uploads", "Subtasks", "Results")
            for action in ("sqs:GetQueueAttributes", "sqs:SendMessage")
        },
        **{
            ("ReconcileRole", "s3:DeleteObject", f"/{prefix}/*"): _EXPIRY
            for prefix in ("models", "state", "results", "attempts", "partial", "expiring")
        },
        **{
            ("ReconcileRole", "s3:PutObject", f"/{prefix}/*"): _MENDS
            for prefix in ("models", "state", "active", "rejected")
        },
        (
            "ReconcileRole",
            "s3:DeleteObject",
            "/active/*",
        ): "the end of a job, which a tick may miss",
        ("ReconcileRole", "s3:PutObject", "/expiring/*"): "the end of a job, which a tick may miss",
        ("ReconcileRole", "sqs:SendMessage", "SubtasksQueue"): _MENDS,
        ("PlanRole", "s3:GetObject", "/models/*"): "start_from begins with another job's model",
        ("PlanRole", "s3:PutObject", "/models/*"): "start_from begins with another job's model",
        ("PlanRole", "s3:GetObject", "/active/*"): "a conditional write to it also reads",
        ("AggregateRole", "s3:ListBucket", ""): "a missing key is answered 404 instead of 403",
        ("AggregateRole", "s3:GetObject", "/models/*"): "a cold start; a warm one remembers",
        ("AggregateRole", "s3:GetObject", "/rejected/*"): "a conditional write to it also reads",
        ("AggregateRole", "s3:PutObject", "/rejected/*"): "no result is refused in this run",
        ("WorkerRole", "s3:PutObject", "/partial/*"): "on a notice; none comes in this run",
        ("WorkerRole", "s3:GetObject", "/partial/*"): "after a notice; none comes in this run",
    }
)


def reason_for(row: Allowed) -> str | None:
    """Return why this is allowed although nobody used it, or None."""
    for (principal, action, resource), reason in JUSTIFIED.items():
        if (principal, action) == (row.principal, row.action) and row.resource.endswith(resource):
            return reason
    return None
