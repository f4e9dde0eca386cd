"""One HTTP request to AWS and its answer, as the faults see them; no socket is here.

A fault is a function around the way to the emulator: it may answer by itself, change what goes
through, or end the caller.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

_CALLER: Final = re.compile(r"\bapp/(\S+)")
_TARGET: Final = "AmazonSQS."
_OF_THE_OLD_BODY: Final = ("content-md5", "x-amz-checksum-", "x-amz-content-sha256")


class CallerGone(Exception):
    """The process that asked was ended: there is nobody to answer."""


@dataclass(frozen=True)
class Response:
    """What the caller gets; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        """Return whether AWS did what it was asked."""
        return 200 <= self.status < 300


@dataclass(frozen=True)
class Request:
    """What a worker or a function asked; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def caller(self) -> str | None:
        """Return the name that the process was given (``AWS_SDK_UA_APP_ID``), if any."""
        found = _CALLER.search(self.headers.get("user-agent", ""))
        return found[1] if found else None

    @property
    def operation(self) -> str | None:
        """Return the SQS operation, or None for a request to S3."""
        target = self.headers.get("x-amz-target", "")
        return target.removeprefix(_TARGET) if target.startswith(_TARGET) else None

    @cached_property
    def key(self) -> str | None:
        """Return the S3 key, or None when there is none; buckets are addressed by path."""
        if self.operation is not None:
            return None
        path = unquote(self.path.partition("?")[0])
        return path.lstrip("/").partition("/")[2] or None

    @property
    def put_key(self) -> str | None:
        """Return the key of the object that is written, or None."""
        return self.key if self.method == "PUT" else None

    def document(self) -> dict[str, Any]:
        """Return the body of a request to SQS."""
        content: dict[str, Any] = json.loads(self.body)
        return content

    def with_body(self, body: bytes) -> "Request":
        """Return the request with another body, and without what vouched for the old one."""
        kept = {
            name: value
            for name, value in self.headers.items()
            if not name.startswith(_OF_THE_OLD_BODY)
        }
        return replace(self, headers=kept | {"content-length": str(len(body))}, body=body)

    def with_document(self, content: Mapping[str, Any]) -> "Request":
        """Return the request to SQS with another content."""
        return self.with_body(json.dumps(content).encode())


Forward = Callable[[Request], Response]
"""The way to the emulator, or to the next fault."""

Fault = Callable[[Request, Forward], Response]
"""Answers a request in its own way; raises ``CallerGone``."""


def through(faults: tuple[Fault, ...], forward: Forward) -> Forward:
    """Return the way that leads through every fault in turn, and then on."""
    for fault in reversed(faults):
        forward = _before(fault, forward)
    return forward


def _before(fault: Fault, forward: Forward) -> Forward:
    return lambda request: fault(request, forward)
