import os
import signal
import socket
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from botocore.exceptions import ClientError

from infra.local.child import Child
from infra.local.cloud import Cloud
from infra.local.emulator import Emulator, EmulatorFailed, Server
from infra.local.environment import child_environment
from infra.local.server import SerialWrites
from spotgrad.aws.clients import Clients

SIGNED = "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/{}/aws4_request, SignedHeaders=host"


def wsgi_request(method: str, body: bytes = b"", **extra: Any) -> dict[str, Any]:
    environ: dict[str, Any] = {}
    setup_testing_defaults(environ)
    environ.update(REQUEST_METHOD=method, HTTP_AUTHORIZATION=SIGNED.format("s3"), **extra)
    environ.setdefault("CONTENT_LENGTH", str(len(body)))
    environ["wsgi.input"] = _Stream(body)
    return environ


class _Stream:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def read(self, size: int = -1) -> bytes:
        taken = self._body if size < 0 else self._body[:size]
        self._body = self._body[len(taken) :]
        return taken


class Inner:
    """An application that notes what it was given and whether a second request came meanwhile."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.inside = 0
        self.most_inside = 0
        self.entered = threading.Event()
        self.leave = threading.Event()

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.bodies.append(environ["wsgi.input"].read())
        self.entered.set()
        assert self.leave.wait(10)
        self.inside -= 1
        start_response("200 OK", [])
        return []


def answer(app: SerialWrites, environ: dict[str, Any], statuses: list[str]) -> None:
    list(app(environ, lambda status, _headers: statuses.append(status)))  # type: ignore[arg-type]  # a test's start_response


def test_s3_writes_go_one_at_a_time_and_everything_else_passes() -> None:
    inner, statuses = Inner(), list[str]()
    app = SerialWrites(inner)
    first = threading.Thread(target=answer, args=(app, wsgi_request("PUT", b"1"), statuses))
    first.start()
    assert inner.entered.wait(10)
    second = threading.Thread(target=answer, args=(app, wsgi_request("DELETE"), statuses))
    second.start()
    inner.entered.clear()
    others = [
        wsgi_request("GET"),
        {**wsgi_request("POST"), "HTTP_AUTHORIZATION": SIGNED.format("sqs")},
    ]
    for environ in others:
        thread = threading.Thread(target=answer, args=(app, environ, statuses))
        thread.start()
        assert inner.entered.wait(10)
        inner.entered.clear()
    assert inner.inside == 3  # the PUT, the GET and the queue's request; not the DELETE
    inner.leave.set()
    for thread in (first, second):
        thread.join(10)
    assert len(inner.bodies) == 4


def test_an_upload_that_breaks_off_is_refused() -> None:
    inner, statuses = Inner(), list[str]()
    inner.leave.set()
    app = SerialWrites(inner)
    answer(app, wsgi_request("PUT", b"half", CONTENT_LENGTH="8"), statuses)
    assert (inner.bodies, statuses) == ([], ["400 Bad Request"])
    answer(app, wsgi_request("PUT", b"whole"), statuses)
    chunked = {"wsgi.input_terminated": True, "CONTENT_LENGTH": ""}
    answer(app, wsgi_request("PUT", b"chunks", **chunked), statuses)
    unsigned = {**wsgi_request("PUT", b"plain"), "HTTP_AUTHORIZATION": ""}
    answer(app, unsigned, statuses)
    assert inner.bodies == [b"whole", b"chunks", b"plain"]


def test_the_socket_of_a_dead_uploader_leaves_no_object(
    emulator: Emulator, cloud: Cloud, clients: Clients
) -> None:
    host, port = emulator.endpoint_url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as uploader:
        uploader.sendall(
            f"PUT /{cloud.bucket}/results/half HTTP/1.1\r\nHost: {host}:{port}\r\n"
            f"Authorization: {SIGNED.format('s3')}\r\nContent-Length: 1000\r\n\r\nhalf".encode()
        )
        uploader.shutdown(socket.SHUT_WR)
        assert uploader.recv(100).startswith(b"HTTP/1.1 400")
    assert "Contents" not in clients.s3.list_objects_v2(Bucket=cloud.bucket)


def test_of_many_conditional_writes_one_wins(cloud: Cloud, clients: Clients) -> None:
    outcomes: list[str] = []
    barrier = threading.Barrier(8)

    def create(number: int) -> None:
        barrier.wait(10)
        try:
            clients.s3.put_object(
                Bucket=cloud.bucket, Key="head", Body=str(number).encode() * 9, IfNoneMatch="*"
            )
        except ClientError as error:
            outcomes.append(error.response["Error"]["Code"])
        else:
            outcomes.append("created")

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(outcomes) == ["PreconditionFailed"] * 7 + ["created"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_the_server_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    log = tmp_path / "server.log"
    server = Child("infra.local.server", environment=child_environment(), log=log)
    with server.stdout:
        assert b"port" in server.stdout.readline()
        os.kill(server.pid, number)
        assert server.stdout.read() == b""  # until it has ended
    assert server.end(grace_seconds=10) == 0
    assert log.read_text(encoding="utf-8") == ""


def test_the_server_ends_with_its_parent(tmp_path: Path) -> None:
    running = Emulator(tmp_path / "emulator.log")
    assert running.alive
    running.close()  # closes its standard input, which is all that a dead parent does
    assert not running.alive
    assert running.exit_status == 0
    running.close()


def test_a_server_that_does_not_start_names_its_log(tmp_path: Path) -> None:
    log = tmp_path / "emulator.log"
    with pytest.raises(EmulatorFailed, match=r"emulator\.log"):
        Emulator(log, Server("infra.local.no_such_server"))
    assert "no_such_server" in log.read_text(encoding="utf-8")
