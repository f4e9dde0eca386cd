import json

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


def test_a_rejection_names_the_object_and_the_reason() -> None:
    rejection = Rejection(result="results/d/000001/train-000003/deadbeef.safetensors", reason="NaN")
    assert Rejection.from_json(rejection.to_json()) == rejection
