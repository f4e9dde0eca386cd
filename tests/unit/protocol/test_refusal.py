import json
from datetime import UTC, datetime, timedelta

import pytest

from spotgrad.errors import Malformed
from spotgrad.protocol.refusal import Refusal, Rejection


def test_a_refusal_names_the_very_file_and_the_reason() -> None:
    facts = {"schema": 1, "job": "d", "reason": "r", "at": "2026-01-01T12:00:00Z"}
    body = json.dumps(facts | {"job_file_sha256": "0" * 64})
    refusal = Refusal.from_json(body)
    assert refusal.reason == "r"
    with pytest.raises(Malformed, match=r"^refusal: job_file_sha256: "):
        Refusal.from_json(body.replace("0" * 64, "0"))


def test_the_longest_subject_of_a_refusal_is_what_sns_takes() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    said = Refusal(job="j" * 63, job_file_sha256="0" * 64, reason="r", at=at)
    assert len(said.subject) < 100
    assert said.subject.isascii()


def test_a_refusal_is_repeated_by_the_same_file_for_the_same_reason() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    said = Refusal(job="d", job_file_sha256="0" * 64, reason="r", at=at)
    assert said.repeats(said.model_copy(update={"told": True, "at": at + timedelta(hours=1)}))
    assert not said.repeats(said.model_copy(update={"reason": "another"}))
    assert not said.repeats(said.model_copy(update={"job_file_sha256": "1" * 64}))


def test_a_rejection_names_the_object_and_the_reason() -> None:
    rejection = Rejection(result="results/d/000001/train-000003/deadbeef.safetensors", reason="NaN")
    assert Rejection.from_json(rejection.to_json()) == rejection
