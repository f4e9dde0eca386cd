"""The local run's moto server (``infra.local.server``) in a thread of this process, and clients.

The same application, so that its mends of moto (atomic conditional writes above all) hold here too.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from werkzeug.serving import make_server

from infra.local.server import LOOPBACK, QuietHandler, build_app
from spotgrad.aws.clients import Clients, make_clients
from tests.fakes.environment import clean


@contextmanager
def served() -> Iterator[str]:
    """Serve until the block ends; yield the endpoint's URL."""
    server = make_server(LOOPBACK, 0, build_app(), threaded=True, request_handler=QuietHandler)
    thread = threading.Thread(target=server.serve_forever, name="moto", daemon=True)
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def clients_of(endpoint: str) -> Iterator[Clients]:
    """Yield the product's own clients for ``endpoint``, made in an environment of their own."""
    with pytest.MonkeyPatch.context() as environment:  # a session starts before any test's own
        clean(environment)
        environment.setenv("AWS_ENDPOINT_URL", endpoint)
        made = make_clients()
        late: list[Any] = [made.batch, made.sns]  # made when they are first asked for: now
    yield made
    made.s3.close()
    made.sqs.close()
    for client in late:
        client.close()
