import json
from typing import Any

import pytest

from spotgrad.errors import Malformed
from spotgrad.protocol.attempt import Attempt

RECORD: dict[str, Any] = {
    "schema": 1,
    "job": "d",
    "run": "00000001",
    "epoch": 1,
    "subtask": "train-000003",
    "attempt": "deadbeef",
    "worker": "w",
    "base": None,
    "started_at": "2026-01-01T12:00:00Z",
    "beat_at": "2026-01-01T12:00:40Z",
}


def test_an_attempt_without_an_end_is_alive_or_was_interrupted() -> None:
    attempt = Attempt.from_json(json.dumps(RECORD))
    assert attempt.outcome is None
    assert (attempt.beat_at - attempt.started_at).total_seconds() == 40


@pytest.mark.parametrize("outcome", ["uploaded", "failed", "returned", "lease-lost"])
def test_how_an_attempt_may_end(outcome: str) -> None:
    assert Attempt.from_json(json.dumps(RECORD | {"outcome": outcome})).outcome == outcome


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"outcome": "bored"}, "outcome"),
        ({"attempt": "X"}, "attempt"),
        ({"beat_at": "?"}, "beat_at"),
    ],
)
def test_a_wrong_record_is_refused(changes: dict[str, Any], place: str) -> None:
    with pytest.raises(Malformed, match=rf"^attempt record: {place}: "):
        Attempt.from_json(json.dumps(RECORD | changes))
