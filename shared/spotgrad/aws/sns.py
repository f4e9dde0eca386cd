"""The port ``Announcer`` on one SNS topic. At least once, like everything that is told here."""

from typing import Any, Protocol

from spotgrad.aws.translate import translated

__all__ = ["SnsClient", "SnsTopic"]


class SnsClient(Protocol):
    """What is used of boto3's client of SNS; ``spotgrad.aws.clients`` makes it."""

    def publish(self, **request: Any) -> Any:
        """Publish one message."""
        ...


class SnsTopic:
    """One topic, by its ARN."""

    def __init__(self, client: SnsClient, topic_arn: str) -> None:
        self._client = client
        self._topic_arn = topic_arn

    def announce(self, subject: str, body: str) -> None:
        """Publish ``body`` to every subscriber; ``subject`` is the line that mail shows.

        Raises:
            MissingSetting: there is no such topic.
        """
        with translated(f"publish to {self._topic_arn}"):
            self._client.publish(TopicArn=self._topic_arn, Subject=subject, Message=body)
