"""Recorded calls, and what IAM asks for each: the action and the resource it is checked against.

https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html
https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonsqs.html
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ACTIONS: Mapping[tuple[str, str], str] = {
    ("s3", "GetObject"): "s3:GetObject",
    ("s3", "PutObject"): "s3:PutObject",
    ("s3", "DeleteObject"): "s3:DeleteObject",
    ("s3", "ListObjectsV2"): "s3:ListBucket",
    ("sqs", "ReceiveMessage"): "sqs:ReceiveMessage",
    ("sqs", "DeleteMessage"): "sqs:DeleteMessage",
    ("sqs", "ChangeMessageVisibility"): "sqs:ChangeMessageVisibility",
    ("sqs", "GetQueueAttributes"): "sqs:GetQueueAttributes",
    ("sqs", "SendMessageBatch"): "sqs:SendMessage",
}
"""Operations that the product uses; another one fails the test until it has its row."""


@dataclass(frozen=True)
class Need:
    """One permission, on one resource."""

    action: str
    resource: str


@dataclass(frozen=True)
class Call:
    """One call of one process."""

    caller: str
    service: str
    operation: str
    parameters: Mapping[str, str]

    @property
    def needs(self) -> tuple[Need, ...]:
        action = ACTIONS[self.service, self.operation]
        need = Need(action, self._resource(action))
        if "IfMatch" in self.parameters:  # S3 reads what it compares
            return need, Need("s3:GetObject", need.resource)
        return (need,)

    def _resource(self, action: str) -> str:
        if self.service == "sqs":
            return self.parameters["QueueUrl"].rpartition("/")[2]
        bucket = f"arn:aws:s3:::{self.parameters['Bucket']}"
        return bucket if action == "s3:ListBucket" else f"{bucket}/{self.parameters['Key']}"


def read_calls(folder: Path) -> Iterator[Call]:
    """Yield every call that was written down; a line cut off by a SIGKILL was never made."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            yield Call(**json.loads(line))
