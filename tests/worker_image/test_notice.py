import http.client
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from spotgrad.settings import HostSettings, WorkerSettings
from tests.fakes.clock import FakeClock
from tests.worker_image.world import FakeStop
from worker_image.machine import EcsTask, InstanceMetadata, Notice
from worker_image.notice import NoticeBoard, sources_of

URGENT = Notice("spot terminate in 90 s", 90.0)
GENTLE = Notice("rebalance recommendation", None, urgent=False)
SETTINGS = WorkerSettings(bucket="bucket", subtasks_queue_url="q")


class Scripted:
    """A source that answers as written, and with nothing from then on."""

    def __init__(self, *answers: Notice | Exception | None, name: str = "scripted") -> None:
        self.name = name
        self.answers = list(answers)
        self.asked = 0

    def ask(self) -> Notice | None:
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def stop() -> Iterator[FakeStop]:
    made = FakeStop()
    yield made
    made.close()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_a_notice_asks_to_stop_once(stop: FakeStop) -> None:
    source = Scripted(None, URGENT, URGENT)
    board = NoticeBoard([source], stop)
    board.look()
    assert not stop.leaving
    board.look()
    assert (stop.requested, stop.notices) == (True, [90.0])
    board.look()
    assert (stop.notices, source.asked) == ([90.0], 2)


def test_a_recommendation_is_passed_on_and_an_interruption_may_follow(
    stop: FakeStop, caplog: pytest.LogCaptureFixture
) -> None:
    board = NoticeBoard([Scripted(GENTLE, GENTLE, URGENT)], stop)
    board.look()
    board.look()
    assert (stop.requested, stop.leaving) == (False, True)
    assert len(warnings(caplog)) == 1
    board.look()
    assert (stop.requested, stop.notices) == (True, [90.0])


@pytest.mark.parametrize("error", [TimeoutError("timed out"), http.client.BadStatusLine("x")])
def test_a_source_that_never_answers_costs_one_question_and_one_warning(
    stop: FakeStop, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    silent, other = Scripted(error, URGENT), Scripted(None, URGENT, name="other")
    board = NoticeBoard([silent, other], stop)
    for _ in range(3):
        board.look()
    assert silent.asked == 1
    assert stop.notices == [90.0]  # the other one's
    (line, _) = warnings(caplog)
    assert line.startswith("no scripted (")
    assert line.endswith("SIGTERM is the only notice")


def test_a_hiccup_later_on_is_forgiven(stop: FakeStop, caplog: pytest.LogCaptureFixture) -> None:
    board = NoticeBoard([Scripted(None, OSError("HTTP 503"), URGENT)], stop)
    for _ in range(3):
        board.look()
    assert stop.notices == [90.0]
    assert warnings(caplog) == ["notice: spot terminate in 90 s"]


@pytest.mark.parametrize(
    ("settings", "host", "expected"),
    [
        ({}, {}, [InstanceMetadata]),
        ({}, {"aws_ec2_metadata_disabled": True}, []),
        ({"metadata_endpoint": "http://x"}, {"aws_ec2_metadata_disabled": True}, ["http://x"]),
        ({}, {"aws_ec2_metadata_service_endpoint": "http://y"}, ["http://y"]),
        ({}, {"ecs_container_metadata_uri_v4": "http://z"}, [InstanceMetadata, EcsTask]),
    ],
)
def test_who_is_asked_depends_on_the_machine(
    settings: dict[str, Any], host: dict[str, Any], expected: list[Any]
) -> None:
    mine = SETTINGS.model_copy(update=settings)
    found = sources_of(mine, HostSettings(**host), FakeClock())
    assert len(found) == len(expected)
    for source, what in zip(found, expected, strict=True):
        if isinstance(what, str):
            assert isinstance(source, InstanceMetadata)
            assert source._endpoint == what
        else:
            assert isinstance(source, what)
