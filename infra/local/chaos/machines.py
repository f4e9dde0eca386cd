"""The machines that workers believe to run on: EC2's instance metadata, faked on loopback.

One server for all of them; a worker's endpoint ends with its name. Version 2 of the service, as far
as a worker asks: a token, the spot interruption, nothing else. It kills nobody.
"""

import json
import secrets
import threading
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

LOOPBACK: Final = "127.0.0.1"

_POLL_SECONDS: Final = 0.05
_TOKEN: Final = "/latest/api/token"  # noqa: S105 -- a path
_ACTION: Final = "/latest/meta-data/spot/instance-action"


class Machines:
    """Listens until closed."""

    def __init__(self) -> None:
        self._server = _Server((LOOPBACK, 0), _Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), daemon=True
        )
        self._thread.start()

    def endpoint(self, worker: str) -> str:
        """Return where the worker of that name asks about its machine."""
        return f"http://{LOOPBACK}:{self._server.server_address[1]}/{worker}"

    def announce(self, worker: str, at: datetime) -> None:
        """Let the worker's machine be taken away at a time (UTC): tell whoever asks."""
        self._server.notices[worker] = at

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *arguments: object) -> None:
        self.notices: dict[str, datetime] = {}
        self.token = secrets.token_urlsafe()
        super().__init__(*arguments)  # type: ignore[arg-type]  # handed on as they came


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_PUT(self) -> None:
        self._answer(*((200, self.server.token) if self.path.endswith(_TOKEN) else (404, "")))

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") != self.server.token:
            self._answer(401, "")
            return
        at = self.server.notices.get(self.path.removesuffix(_ACTION).strip("/"))
        if at is None:
            self._answer(404, "")
            return
        action = {"action": "terminate", "time": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
        self._answer(200, json.dumps(action))

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
