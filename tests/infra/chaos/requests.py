"""Requests as SDKs send them, and a way to the emulator that remembers what came along."""

import json
from collections.abc import Sequence
from typing import Any

from infra.local.chaos.exchange import Request, Response

OK = Response(200, {}, b"")


def s3(method: str, key: str, body: bytes = b"", *, caller: str | None = None) -> Request:
    headers = {"content-length": str(len(body)), **agent(caller)}
    return Request(method, f"/the-bucket/{key}", headers, body)


def sqs(operation: str, document: dict[str, Any], *, caller: str | None = None) -> Request:
    headers = {"x-amz-target": f"AmazonSQS.{operation}", **agent(caller)}
    return Request("POST", "/", headers, json.dumps(document).encode())


def batch(*bodies: str) -> Request:
    entries = [{"Id": body, "MessageBody": body} for body in bodies]
    return sqs("SendMessageBatch", {"QueueUrl": "q", "Entries": entries})


def agent(caller: str | None) -> dict[str, str]:
    name = f" app/{caller}" if caller else ""
    return {"user-agent": f"Boto3/1.44 md/Botocore#1.44 exec-env/x{name}"}


class Emulator:
    """Takes everything, in order."""

    def __init__(self, answer: Response = OK) -> None:
        self.seen: list[Request] = []
        self.answer = answer

    def __call__(self, request: Request) -> Response:
        self.seen.append(request)
        return self.answer

    @property
    def entries(self) -> Sequence[Sequence[dict[str, Any]]]:
        """What each batch that was sent held."""
        return [request.document()["Entries"] for request in self.seen]
