from hypothesis import given

from spotgrad.protocol.announcement import Announcement
from tests.builders import begun, job_plan
from tests.unit.protocol.documents import models

SAID = Announcement.of(begun(job_plan()))


@given(models(Announcement))
def test_an_announcement_is_read_back(said: Announcement) -> None:
    assert Announcement.from_json(said.to_json()) == said


def test_the_longest_subject_is_what_sns_takes() -> None:
    said = SAID.model_copy(update={"job": "j" * 63, "state": "CANCELLED"})
    assert len(said.subject) <= 100
    assert said.subject.isascii()


def test_a_state_is_repeated_within_a_run_alone() -> None:
    assert SAID.repeats(SAID.model_copy(update={"version": 7, "reason": "because"}))
    assert not SAID.repeats(None)
    assert not SAID.repeats(SAID.model_copy(update={"run": "bb" * 8}))
    assert not SAID.repeats(SAID.model_copy(update={"state": "PAUSED"}))
