import http.client
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from infra.local.chaos.exchange import CallerGone, Forward, Request, Response
from infra.local.chaos.proxy import Proxy


class Echo(BaseHTTPRequestHandler):
    """Says what it was asked; counts its connections."""

    protocol_version = "HTTP/1.1"
    connections = 0

    def setup(self) -> None:
        super().setup()
        type(self).connections += 1

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        told = b"%s %s " % (self.command.encode(), self.path.encode()) + body
        status = int(self.headers.get("x-status") or 200)
        self.send_response(status)
        self.send_header("X-Asked-By", self.headers.get("X-Who", "nobody"))
        self.send_header("Expect-Seen", self.headers.get("Expect", "no"))
        if "x-close" in self.headers:
            self.close_connection = True  # without a word, as a server at the end of its patience
        if status == 204:
            self.end_headers()
            return
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(told)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815 -- http.server's names

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[str]:
    Echo.connections = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def proxy(upstream: str) -> Iterator[Proxy]:
    proxy = Proxy(upstream, lambda forward: forward)
    yield proxy
    proxy.close()


@pytest.fixture
def caller(proxy: Proxy) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=20)
    yield connection
    connection.close()


def ask(
    caller: http.client.HTTPConnection, method: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    given = {name.replace("_", "-"): text for name, text in headers.items()}
    caller.request(method, "/bucket/a%20key?x=1", body or None, given)
    answer = caller.getresponse()
    found = {name.lower(): text for name, text in answer.getheaders()}
    return answer.status, found, answer.read()


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
def test_requests_and_answers_pass_unchanged(
    caller: http.client.HTTPConnection, method: str
) -> None:
    status, headers, body = ask(caller, method, b"\x00\xff" * 50_000, X_Who="me", x_status="203")
    assert status == 203
    assert headers["x-asked-by"] == "me"
    assert body == b"%s /bucket/a%%20key?x=1 " % method.encode() + b"\x00\xff" * 50_000


def test_answers_without_a_body_keep_their_headers(caller: http.client.HTTPConnection) -> None:
    status, headers, body = ask(caller, "HEAD")
    assert (status, int(headers["content-length"]) > 10, body) == (200, True, b"")
    assert ask(caller, "DELETE", x_status="204")[::2] == (204, b"")
    assert ask(caller, "GET")[0] == 200  # and the connection is still in step


def test_a_connection_is_kept_and_has_one_onwards(caller: http.client.HTTPConnection) -> None:
    for _ in range(5):
        assert ask(caller, "GET")[0] == 200
    assert Echo.connections == 1


def test_a_connection_that_the_emulator_closed_is_opened_again(
    caller: http.client.HTTPConnection,
) -> None:
    assert ask(caller, "GET", x_close="1")[0] == 200
    assert ask(caller, "PUT", b"again")[2].endswith(b"again")
    assert Echo.connections == 2


def test_an_sdk_that_waits_for_leave_to_send_gets_it(proxy: Proxy) -> None:
    with socket.create_connection(urlsplit(proxy.url).netloc.split(":"), 20) as plain:  # type: ignore[arg-type]  # ("127.0.0.1", "5") is an address too
        plain.sendall(
            b"PUT /b/k HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
        )
        assert plain.recv(100).startswith(b"HTTP/1.1 100 ")
        plain.sendall(b"body")
        answer = plain.recv(1000)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"expect-seen: no" in answer


def test_half_a_request_goes_nowhere(proxy: Proxy) -> None:
    with socket.create_connection(urlsplit(proxy.url).netloc.split(":"), 20) as plain:  # type: ignore[arg-type]  # as above
        plain.sendall(b"PUT /b/k HTTP/1.1\r\nHost: x\r\nContent-Length: 400\r\n\r\nhalf")
        plain.shutdown(socket.SHUT_WR)
        assert plain.recv(100) == b""
    assert Echo.connections == 0


def test_many_callers_at_once_do_not_meet(proxy: Proxy) -> None:
    seen: list[bytes] = []

    def call(number: int) -> None:
        connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=20)
        seen.extend(ask(connection, "PUT", b"caller %d" % number)[2][-8:] for _ in range(10))
        connection.close()

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == sorted(b"caller %d" % number for number in range(8) for _ in range(10))


def test_a_caller_that_was_ended_gets_no_answer(upstream: str) -> None:
    def gone(request: Request, _forward: Forward) -> Response:
        raise CallerGone(request.path)

    proxy = Proxy(upstream, lambda forward: lambda request: gone(request, forward))
    connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=20)
    with pytest.raises(http.client.RemoteDisconnected):
        ask(connection, "PUT", b"x")
    connection.close()
    proxy.close()
    assert Echo.connections == 0


def test_an_emulator_that_is_gone_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    proxy = Proxy(f"http://127.0.0.1:{port}", lambda forward: forward)
    connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=20)
    with pytest.raises(http.client.RemoteDisconnected):
        ask(connection, "GET")
    connection.close()
    proxy.close()
