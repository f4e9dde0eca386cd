"""Creates in the emulator what the topology names, and checks that it is wired as it should be.

moto swallows every error between a bucket and a queue, so after connecting the two this module
reads the configuration back and looks for the test event that S3 sends to each queue.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.local.template import QueueUrl
from infra.local.topology import Notification, QueueResource, Topology
from spotgrad.aws.clients import Clients


class WiringFailed(RuntimeError):
    """The emulator took a request and did not do what it says."""


@dataclass(frozen=True)
class Cloud:
    """The created resources: the bucket's name, and each queue's URL by logical id."""

    bucket: str
    queue_urls: Mapping[str, str]

    def environment(self, variables: Mapping[str, str | QueueUrl]) -> dict[str, str]:
        """Return a function's environment with the queues' URLs filled in."""
        return {name: self._text(value) for name, value in variables.items()}

    def _text(self, value: str | QueueUrl) -> str:
        return self.queue_urls[value.logical_id] if isinstance(value, QueueUrl) else value


def create_cloud(topology: Topology, clients: Clients) -> Cloud:
    """Create the queues, their redrive policies and the bucket; nothing is connected yet."""
    urls = {name: _create_queue(queue, clients) for name, queue in topology.queues.items()}
    for name, queue in topology.queues.items():
        if queue.redrive:
            policy = {
                "deadLetterTargetArn": topology.queues[queue.redrive.target].arn,
                "maxReceiveCount": queue.redrive.max_receives,
            }
            clients.sqs.set_queue_attributes(
                QueueUrl=urls[name], Attributes={"RedrivePolicy": json.dumps(policy)}
            )
    clients.s3.create_bucket(Bucket=topology.bucket.name)
    return Cloud(topology.bucket.name, urls)


def connect_notifications(topology: Topology, cloud: Cloud, clients: Clients) -> None:
    """Let the bucket announce new objects; call it before the pump starts.

    A step of its own, so that a restored bucket announces nothing that was there before.

    Raises:
        WiringFailed: the configuration reads back otherwise, or a queue got no test event.
    """
    wanted = _configuration(topology)
    clients.s3.put_bucket_notification_configuration(
        Bucket=cloud.bucket, NotificationConfiguration=wanted
    )
    found = clients.s3.get_bucket_notification_configuration(Bucket=cloud.bucket)
    if _comparable(found) != _comparable(wanted):
        raise WiringFailed(f"bucket {cloud.bucket}: wanted {wanted}, the emulator has {found}")
    for name in {notification.queue for notification in topology.bucket.notifications}:
        if queue_depth(cloud.queue_urls[name], clients) == 0:
            raise WiringFailed(f"queue {name}: S3's test event did not arrive")


def queue_depth(url: str, clients: Clients) -> int:
    """Return how many messages wait, are delayed or are leased."""
    answer = clients.sqs.get_queue_attributes(
        QueueUrl=url,
        AttributeNames=[
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesDelayed",
            "ApproximateNumberOfMessagesNotVisible",
        ],
    )
    return sum(int(count) for count in answer["Attributes"].values())


def _create_queue(queue: QueueResource, clients: Clients) -> str:
    answer = clients.sqs.create_queue(
        QueueName=queue.name,
        Attributes={
            "VisibilityTimeout": str(queue.visibility_seconds),
            "MessageRetentionPeriod": str(queue.retention_seconds),
        },
    )
    url = answer["QueueUrl"]
    arn = clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    if arn["Attributes"]["QueueArn"] != queue.arn:
        raise WiringFailed(f"queue {queue.name}: is {arn['Attributes']}, not {queue.arn}")
    return url


def _configuration(topology: Topology) -> Any:
    return {
        "QueueConfigurations": [
            {
                "QueueArn": topology.queues[notification.queue].arn,
                "Events": list(notification.events),
                "Filter": {"Key": {"FilterRules": _rules(notification)}},
            }
            for notification in topology.bucket.notifications
        ]
    }


def _rules(notification: Notification) -> list[dict[str, str]]:
    return [
        {"Name": "prefix", "Value": notification.prefix},
        {"Name": "suffix", "Value": notification.suffix},
    ]


def _comparable(configuration: Mapping[str, Any]) -> set[tuple[object, ...]]:
    return {
        (
            entry["QueueArn"],
            *sorted(entry["Events"]),
            *sorted(
                (rule["Name"], rule["Value"]) for rule in entry["Filter"]["Key"]["FilterRules"]
            ),
        )
        for entry in configuration.get("QueueConfigurations", [])
    }
