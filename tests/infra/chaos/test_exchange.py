from infra.local.chaos.exchange import Forward, Request, Response, through
from tests.infra.chaos.requests import OK, Emulator, batch, s3, sqs


def test_who_asks_is_read_from_the_user_agent() -> None:
    assert s3("GET", "k", caller="local-3").caller == "local-3"
    assert s3("GET", "k").caller is None
    assert Request("GET", "/", {}, b"").caller is None


def test_an_s3_request_has_a_key_and_an_sqs_request_an_operation() -> None:
    put = s3("PUT", "results/a%20b/c")
    assert (put.key, put.put_key, put.operation) == ("results/a b/c", "results/a b/c", None)
    get = s3("GET", "state/j/head.json")
    assert (get.key, get.put_key) == ("state/j/head.json", None)
    listing = Request("GET", "/the-bucket?list-type=2&prefix=state/", {}, b"")
    assert (listing.key, listing.put_key) == (None, None)
    send = sqs("SendMessage", {})
    assert (send.key, send.put_key, send.operation) == (None, None, "SendMessage")


def test_another_body_is_vouched_for_by_nothing_old() -> None:
    old = {"Content-MD5": "x", "x-amz-checksum-crc32": "y", "x-amz-content-sha256": "z", "a": "b"}
    headers = {name.lower(): text for name, text in old.items()}
    changed = Request("PUT", "/b/k", headers, b"12").with_body(b"123")
    assert changed == Request("PUT", "/b/k", {"a": "b", "content-length": "3"}, b"123")
    assert batch("x").with_document({"Entries": []}).document() == {"Entries": []}


def test_success_is_two_hundred_and_something() -> None:
    assert [Response(status, {}, b"").ok for status in (199, 200, 299, 304, 503)] == [
        False,
        True,
        True,
        False,
        False,
    ]


def test_faults_are_met_in_order_on_the_way_there() -> None:
    met: list[str] = []

    def one(request: Request, forward: Forward) -> Response:
        met.append("one")
        return forward(request)

    def two(request: Request, forward: Forward) -> Response:
        met.append("two")
        return forward(request.with_body(b"changed"))

    emulator = Emulator()
    assert through((one, two), emulator)(s3("PUT", "k", b"body")) == OK
    assert met == ["one", "two"]
    assert [request.body for request in emulator.seen] == [b"changed"]
