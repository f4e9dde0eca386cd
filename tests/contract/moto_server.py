"""moto's S3 and SQS on a loopback port of this process, with S3 writes one at a time.

moto's conditional writes are not atomic under threads: of 20 threads that send ``If-None-Match: *``
at once more than one may win. The lock makes the server behave as S3 does in that respect.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class QuietHandler(WSGIRequestHandler):
    """HTTP/1.1, so that clients keep their connections, and no log line per request."""

    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


class SerialWrites:
    """WSGI middleware: one S3 write at a time. SQS (by its target header) and reads pass freely."""

    def __init__(self, app: "WSGIApplication") -> None:
        self._app = app
        self._lock = threading.Lock()

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in ("GET", "HEAD") or "HTTP_X_AMZ_TARGET" in environ:
            return self._app(environ, start_response)
        with self._lock:
            return list(self._app(environ, start_response))


@contextmanager
def served() -> Iterator[str]:
    """Serve until the block ends; yield the endpoint's URL."""
    app = SerialWrites(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=QuietHandler)
    thread = threading.Thread(target=server.serve_forever, name="moto", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
