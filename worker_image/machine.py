"""What the machine says of itself over HTTP: Spot notices and the state of the container's task.

Two sources with one method, ``ask``. Nothing here decides or waits (``notice``). Invariant: no
request takes longer than its timeout per step, goes through a proxy, or follows a redirect.
"""

import http.client
import json
import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from spotgrad.ports import Clock

__all__ = ["EcsTask", "InstanceMetadata", "Notice", "Source"]

log = logging.getLogger(__name__)

TIMEOUT_SECONDS: Final = 1.0
MOST_NOTICE_SECONDS: Final = 120.0
"""https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html"""
MOST_BYTES: Final = 1 << 20
TOKEN_SECONDS: Final = 21_600
TOKEN_HEADER: Final = "X-aws-ec2-metadata-token"  # noqa: S105 - the header's name


@dataclass(frozen=True)
class Notice:
    """The machine goes. ``seconds`` of nothing: nobody said when."""

    reason: str
    seconds: float | None
    urgent: bool = True
    """False: it may go soon, so begin nothing new."""


class Source(Protocol):
    """Something that knows whether the machine is about to go."""

    name: str

    def ask(self) -> Notice | None:
        """Return the notice, if there is one.

        Raises:
            OSError, http.client.HTTPException: it did not answer, or not as it should.
        """
        ...


class InstanceMetadata:
    """EC2's instance metadata, version 2.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/rebalance-recommendations.html
    """

    name = "instance metadata"

    def __init__(
        self, endpoint: str, clock: Clock, *, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._token: str | None = None

    def ask(self) -> Notice | None:
        """Return the interruption, or else the rebalance recommendation, if there is one.

        Raises:
            OSError, http.client.HTTPException: as ``Source``.
        """
        action = self._read("spot/instance-action")
        if action is not None:
            what, seconds = action.get("action", "interruption"), self._seconds(action)
            return Notice(f"spot {what} in {seconds:.0f} s", seconds)
        if self._read("events/recommendations/rebalance") is not None:
            return Notice("rebalance recommendation", None, urgent=False)
        return None

    def _seconds(self, action: dict[str, Any]) -> float:
        """Return what is left; without a time (hibernation has none) that is nothing."""
        try:
            at = datetime.fromisoformat(str(action["time"]))
            left = (at - self._clock.now()).total_seconds()
        except (KeyError, ValueError, TypeError):
            return 0.0
        return min(MOST_NOTICE_SECONDS, max(0.0, left))  # this clock may be wrong

    def _read(self, path: str) -> dict[str, Any] | None:
        url = f"{self._endpoint}/latest/meta-data/{path}"
        status, body = self._get(url)
        if status == http.client.UNAUTHORIZED:  # the token is too old
            self._token = None
            status, body = self._get(url)
        if status == http.client.NOT_FOUND:
            return None
        return _document(status, body, url)

    def _get(self, url: str) -> tuple[int, bytes]:
        if self._token is None:
            self._token = self._new_token()
        return _request("GET", url, {TOKEN_HEADER: self._token}, self._timeout_seconds)

    def _new_token(self) -> str:
        url = f"{self._endpoint}/latest/api/token"
        headers = {f"{TOKEN_HEADER}-ttl-seconds": str(TOKEN_SECONDS)}
        status, body = _request("PUT", url, headers, self._timeout_seconds)
        if status != http.client.OK:
            raise OSError(f"{url}: HTTP {status}")
        return body.decode("ascii", "replace").strip()


class EcsTask:
    """The container agent's word on its task (Fargate, ECS and Batch)."""

    name = "ECS task metadata"

    def __init__(self, uri: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._url = f"{uri.rstrip('/')}/task"
        self._timeout_seconds = timeout_seconds

    def ask(self) -> Notice | None:
        """Return a notice when the task is to be stopped.

        Raises:
            OSError, http.client.HTTPException: as ``Source``.
        """
        status, body = _request("GET", self._url, {}, self._timeout_seconds)
        wanted = _document(status, body, self._url).get("DesiredStatus")
        return Notice("the task is to be stopped", None) if wanted == "STOPPED" else None


def _request(
    method: str, url: str, headers: dict[str, str], timeout_seconds: float
) -> tuple[int, bytes]:
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        raise OSError(f"{url}: not an http:// address")
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_seconds)
    try:
        connection.request(method, parts.path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read(MOST_BYTES)
    finally:
        connection.close()


def _document(status: int, body: bytes, url: str) -> dict[str, Any]:
    if status != http.client.OK:
        raise OSError(f"{url}: HTTP {status}")
    try:
        document = json.loads(body)
    except ValueError as error:
        raise OSError(f"{url}: not JSON: {error}") from error
    if not isinstance(document, dict):
        raise OSError(f"{url}: not a JSON object")
    return document
