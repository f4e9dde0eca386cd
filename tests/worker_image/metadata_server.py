"""EC2's instance metadata and ECS's task metadata on a loopback port, as a test wants them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ACTION = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
TICKETS = "/latest/api/token"


class Metadata:
    """What the server says, and what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self.asked: list[str] = []
        self.ticket = "ticket-1"
        self.ticket_status = 200
        self.action_asked = threading.Event()
        self.url = ""


@contextmanager
def serving() -> Iterator[Metadata]:
    metadata = Metadata()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            fits = self.path == TICKETS and self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
            metadata.asked.append(f"PUT {self.path}")
            self._answer(metadata.ticket_status if fits else 400, metadata.ticket)

        def do_GET(self) -> None:
            metadata.asked.append(f"GET {self.path}")
            if self.path == ACTION:
                metadata.action_asked.set()
            token = self.headers["X-aws-ec2-metadata-token"]
            if self.path.startswith("/latest/") and token != metadata.ticket:
                self._answer(401, "")
            elif self.path in metadata.answers:
                self._answer(200, metadata.answers[self.path])
            else:
                self._answer(404, "")

        def _answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    metadata.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield metadata
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
