"""What the contract suite cannot show: answers that moto never gives."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from botocore.stub import Stubber

from spotgrad.aws.clients import Clients, make_clients
from spotgrad.aws.s3 import S3Store
from spotgrad.errors import AccessDenied, ConditionFailed, Reject, StoreUnavailable
from spotgrad.ports import ABSENT
from spotgrad.settings import MissingSetting


@pytest.fixture
def clients() -> Clients:
    return make_clients()


@pytest.fixture
def stub(clients: Clients) -> Iterator[Stubber]:
    with Stubber(clients.s3) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


@pytest.fixture
def store(clients: Clients) -> S3Store:
    return S3Store(clients.s3, "bucket")


def test_a_409_is_a_lost_condition(stub: Stubber, store: S3Store) -> None:
    for code in ("ConditionalRequestConflict", "OperationAborted"):
        stub.add_client_error("put_object", code, http_status_code=409)
        with pytest.raises(ConditionFailed, match="put s3://bucket/k"):
            store.put("k", b"1", only_if='"tag"')


def test_conditions_travel_as_headers_and_only_when_asked_for(
    stub: Stubber, store: S3Store
) -> None:
    request = {"Bucket": "bucket", "Key": "k", "Body": b"1"}
    stub.add_response("put_object", {"ETag": '"new"'}, request)
    stub.add_response("put_object", {"ETag": '"new"'}, {**request, "IfNoneMatch": "*"})
    stub.add_response("put_object", {"ETag": '"new"'}, {**request, "IfMatch": '"old"'})
    assert store.put("k", b"1") == '"new"'
    assert store.put("k", b"1", only_if=ABSENT) == '"new"'
    assert store.put("k", b"1", only_if='"old"') == '"new"'


def test_a_missing_bucket_says_what_to_do(stub: Stubber, store: S3Store) -> None:
    stub.add_client_error("list_objects_v2", "NoSuchBucket", http_status_code=404)
    with pytest.raises(MissingSetting, match="SPOTGRAD_BUCKET"):
        list(store.list(""))
    stub.add_client_error("get_object", "NoSuchBucket", http_status_code=404)
    with pytest.raises(MissingSetting, match="--bucket"):
        store.get("k")


def test_a_forbidden_delete_needs_a_person(stub: Stubber, store: S3Store) -> None:
    stub.add_client_error("delete_object", "AccessDenied", http_status_code=403)
    with pytest.raises(AccessDenied, match="delete s3://bucket/k"):
        store.delete("k")


def test_a_later_page_that_fails_is_translated(stub: Stubber, store: S3Store) -> None:
    stub.add_response("list_objects_v2", {"IsTruncated": True, "NextContinuationToken": "2"})
    stub.add_client_error("list_objects_v2", "SlowDown", http_status_code=503)
    with pytest.raises(StoreUnavailable, match="SlowDown"):
        list(store.list(""))


def test_a_bucket_name_that_cannot_be_one_is_refused(clients: Clients) -> None:
    with pytest.raises(Reject, match="My Bucket"):
        S3Store(clients.s3, "My Bucket").get("k")


class HalfAnswers(BaseHTTPRequestHandler):
    """Promises 1,000 bytes, sends 10 and hangs up."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.send_header("ETag", '"tag"')
        self.end_headers()
        self.wfile.write(b"0123456789")

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def half_answers() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), HalfAnswers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_truncated_body_is_never_returned(
    half_answers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", half_answers)
    client = make_clients().s3
    with pytest.raises(StoreUnavailable, match="get s3://bucket/k"):
        S3Store(client, "bucket").get("k")
    client.close()
