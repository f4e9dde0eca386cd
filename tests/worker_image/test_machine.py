import socket
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.fakes.clock import START, FakeClock
from tests.worker_image.metadata_server import ACTION, REBALANCE, TICKETS, Metadata, serving
from worker_image.machine import EcsTask, InstanceMetadata, Notice


@pytest.fixture
def metadata() -> Iterator[Metadata]:
    with serving() as made:
        yield made


def action(seconds: float, what: str = "terminate") -> str:
    at = (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f'{{"action": "{what}", "time": "{at}"}}'


def test_a_healthy_machine_has_no_notice_and_one_token(metadata: Metadata) -> None:
    source = InstanceMetadata(f"{metadata.url}/", FakeClock())
    for _ in range(3):
        assert source.ask() is None
    assert metadata.asked == [f"PUT {TICKETS}", *[f"GET {ACTION}", f"GET {REBALANCE}"] * 3]


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (action(90), 90.0),
        (action(90, "stop"), 90.0),
        (action(-5), 0.0),
        (action(86_400), 120.0),  # a wrong clock must not make it careless
        ('{"action": "hibernate"}', 0.0),
        ('{"action": "terminate", "time": "soon"}', 0.0),
        ('{"action": "terminate", "time": "2030-01-01T00:00:00"}', 0.0),
    ],
)
def test_an_instance_action_says_when(metadata: Metadata, answer: str, seconds: float) -> None:
    metadata.answers[ACTION] = answer
    notice = InstanceMetadata(metadata.url, FakeClock()).ask()
    assert notice is not None
    assert (notice.seconds, notice.urgent) == (seconds, True)
    assert notice.reason.startswith("spot ")


def test_a_rebalance_recommendation_is_not_urgent(metadata: Metadata) -> None:
    metadata.answers[REBALANCE] = '{"noticeTime": "2030-01-01T00:00:00Z"}'
    notice = InstanceMetadata(metadata.url, FakeClock()).ask()
    assert notice == Notice("rebalance recommendation", None, urgent=False)
    metadata.answers[ACTION] = action(100)
    urgent = InstanceMetadata(metadata.url, FakeClock()).ask()
    assert urgent == Notice("spot terminate in 100 s", 100.0)


def test_a_token_that_is_too_old_is_renewed(metadata: Metadata) -> None:
    source = InstanceMetadata(metadata.url, FakeClock())
    assert source.ask() is None
    metadata.ticket = "ticket-2"
    assert source.ask() is None
    assert metadata.asked.count(f"PUT {TICKETS}") == 2


@pytest.mark.parametrize("answer", ["not json", "[]"])
def test_what_is_not_understood_is_no_notice(metadata: Metadata, answer: str) -> None:
    metadata.answers[ACTION] = answer
    with pytest.raises(OSError, match="not"):
        InstanceMetadata(metadata.url, FakeClock()).ask()


def test_metadata_that_is_switched_off_is_said(metadata: Metadata) -> None:
    metadata.ticket_status = 403
    with pytest.raises(OSError, match="HTTP 403"):
        InstanceMetadata(metadata.url, FakeClock()).ask()


def test_an_address_that_does_not_answer_costs_no_more_than_its_timeout() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # connects, and never answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began_at = time.monotonic()
        with pytest.raises(TimeoutError):
            InstanceMetadata(url, FakeClock(), timeout_seconds=0.1).ask()
        assert time.monotonic() - began_at < 3
    with pytest.raises(OSError, match="refused"):
        InstanceMetadata(url, FakeClock()).ask()
    with pytest.raises(OSError, match="not an http:// address"):
        InstanceMetadata("https://169.254.169.254", FakeClock()).ask()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('{"DesiredStatus": "RUNNING"}', None),
        ('{"DesiredStatus": "STOPPED"}', Notice("the task is to be stopped", None)),
    ],
)
def test_a_task_that_is_to_be_stopped_is_a_notice(
    metadata: Metadata, answer: str, expected: Notice | None
) -> None:
    metadata.answers["/v4/abc/task"] = answer
    assert EcsTask(f"{metadata.url}/v4/abc").ask() == expected
    with pytest.raises(OSError, match="HTTP 404"):
        EcsTask(f"{metadata.url}/v4/other").ask()
