"""The HTTP proxy on loopback between a local run's processes and the emulator.

A thread and one connection onwards per connection; requests and answers are held whole. It knows no
fault: it hands each request to a ``Forward`` and sends back what that returns.
"""

import http.client
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from infra.local.chaos.exchange import CallerGone, Forward, Request, Response

LOOPBACK: Final = "127.0.0.1"

_POLL_SECONDS: Final = 0.05
_ANSWER_SECONDS: Final = 60.0  # a long poll ends after 20 at the latest
_BODILESS: Final = frozenset({204, 304})
_OF_ONE_HOP: Final = frozenset(
    {"connection", "expect", "keep-alive", "proxy-connection", "te", "transfer-encoding"}
)

Route = Callable[[Forward], Forward]
"""Puts the faults before the way to the emulator."""


class Proxy:
    """Listens until closed."""

    def __init__(self, upstream_url: str, route: Route) -> None:
        self._server = _Server(upstream_url, route)
        self.url = f"http://{LOOPBACK}:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Listen no more; connections end when their callers do."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Upstream:
    """One connection to the emulator, opened again when it was closed meanwhile."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_ANSWER_SECONDS)

    def __call__(self, request: Request) -> Response:
        """Forward the request; raises OSError or HTTPException when there is no answer."""
        try:
            return self._ask(request)
        except (ConnectionError, http.client.HTTPException):
            self._connection.close()  # it was idle for too long: one more try, as SDKs do
        return self._ask(request)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _ask(self, request: Request) -> Response:
        headers = {name: text for name, text in request.headers.items() if name not in _OF_ONE_HOP}
        self._connection.request(request.method, request.path, request.body, headers)
        answer = self._connection.getresponse()
        found = {name.lower(): text for name, text in answer.getheaders()}
        return Response(answer.status, found, answer.read())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, upstream_url: str, route: Route) -> None:
        self.upstream_url = upstream_url
        self.route = route
        super().__init__((LOOPBACK, 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about callers that went away: ending them is what this is for."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body go out as one write: do not wait for an ACK
    server: _Server

    def setup(self) -> None:
        super().setup()
        self._upstream = Upstream(self.server.upstream_url)
        self._forward = self.server.route(self._upstream)

    def finish(self) -> None:
        self._upstream.close()
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the emulator logs what reaches it."""

    def relay(self) -> None:
        """Answer one request; a caller that is gone, or an emulator, ends the connection."""
        request = self._request()
        if request is None:
            self.close_connection = True
            return
        try:
            response = self._forward(request)
        except (CallerGone, OSError, http.client.HTTPException):
            self.close_connection = True
            return
        self._send(response)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = relay  # noqa: N815 -- http.server's names

    def _request(self) -> Request | None:
        """Return the whole request, or None when its sender died while sending it."""
        headers = {name.lower(): text for name, text in self.headers.items()}
        length = int(headers.get("content-length") or 0)
        body = self.rfile.read(length)
        whole = len(body) == length and "transfer-encoding" not in headers
        return Request(self.command, self.path, headers, body) if whole else None

    def _send(self, response: Response) -> None:
        headers = {name: text for name, text in response.headers.items() if name not in _OF_ONE_HOP}
        body = b""
        if self.command != "HEAD" and response.status not in _BODILESS:
            body = response.body
            headers["content-length"] = str(len(body))
        lines = [f"{self.protocol_version} {response.status} {_reason(response.status)}"]
        lines += [f"{name}: {text}" for name, text in headers.items()]
        self.wfile.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)


def _reason(status: int) -> str:
    return http.client.responses.get(status, "")
