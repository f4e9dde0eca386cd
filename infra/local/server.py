"""``python -m infra.local.server``: moto's S3 and SQS on a free loopback port, as one process.

Prints one JSON line ``{"port": N}`` when it listens, serves until its standard input closes (its
parent is gone) or SIGTERM or SIGINT comes, and holds everything in memory. Two of moto's laxities
are mended in front of it, because the pipeline stands on them: conditional writes are atomic, and
an upload that breaks off half-way leaves no object.
"""

import io
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from moto.core.config import default_user_config
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

LOOPBACK = "127.0.0.1"

_POLL_SECONDS = 0.05  # how soon serve_forever notices that it shall stop
_WRITES = {"PUT", "POST", "DELETE"}
_SIGNED_SERVICE = re.compile(r"Credential=[^/]*/[0-9]*/[^/]*/([^/]+)/aws4_request")
_BROKEN_OFF = b"<Error><Code>IncompleteBody</Code><Message>the upload broke off</Message></Error>"


class SerialWrites:
    """WSGI middleware: S3 writes go through one at a time, each with its whole body read before.

    moto checks ``If-Match`` and stores the object in two steps, so that two threads can both win.
    Reading the body first keeps a slow or dead uploader from holding the lock.
    """

    def __init__(self, app: "WSGIApplication") -> None:
        self._app = app
        self._lock = threading.Lock()

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        """Answer one request (PEP 3333)."""
        if environ["REQUEST_METHOD"] not in _WRITES or _service(environ) != "s3":
            return self._app(environ, start_response)
        body = _whole_body(environ)
        if body is None:
            start_response("400 Bad Request", [("Content-Type", "application/xml")])
            return [_BROKEN_OFF]
        environ["wsgi.input"] = io.BytesIO(body)
        with self._lock:
            return self._app(environ, start_response)


class QuietHandler(MotoRequestHandler):
    """moto's request handler without the access log, which costs an eighth of the throughput."""

    disable_nagle_algorithm = True  # answers go out as two small writes: do not wait for an ACK

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing; errors are still logged."""


def build_app() -> "WSGIApplication":
    """Return moto behind ``SerialWrites``, set up so that nothing asks for a container engine."""
    default_user_config["lambda"]["use_docker"] = False
    default_user_config["batch"]["use_docker"] = False
    return SerialWrites(DomainDispatcherApplication(create_backend_app))


def main() -> None:
    """Serve until standard input closes or a signal comes."""
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    server = make_server(LOOPBACK, 0, build_app(), threaded=True, request_handler=QuietHandler)
    threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), daemon=True).start()
    threading.Thread(target=_until_parent_is_gone, args=(over,), daemon=True).start()
    sys.stdout.write(json.dumps({"port": server.port}) + "\n")
    sys.stdout.flush()
    over.wait()
    server.shutdown()
    server.server_close()


def _until_parent_is_gone(over: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 4096):  # no buffer: its lock would abort the exit
        pass
    over.set()


def _service(environ: "WSGIEnvironment") -> str:
    """Return the service that a request is signed for; unsigned ones are S3's, as in moto."""
    signed = _SIGNED_SERVICE.search(environ.get("HTTP_AUTHORIZATION", ""))
    return signed[1] if signed else "s3"


def _whole_body(environ: "WSGIEnvironment") -> bytes | None:
    """Return the request's body, or None when the sender stopped before its end."""
    stream: Any = environ["wsgi.input"]
    if environ.get("wsgi.input_terminated"):  # chunked: the stream itself ends
        return bytes(stream.read())
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body = bytes(stream.read(length))
    return body if len(body) == length else None


if __name__ == "__main__":
    main()
    os._exit(0)  # nothing is worth saving, and taking moto's modules apart takes a second
