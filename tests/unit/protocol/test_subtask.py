import json
from typing import Any

import pytest

from spotgrad.errors import Malformed
from spotgrad.protocol.subtask import ModelRef, Subtask

MESSAGE: dict[str, Any] = {
    "schema": 1,
    "job": "d" * 63,
    "run": "f" * 64,
    "epoch": 999_999,
    "subtask": "evaluate-999999",
    "model": {
        "version": 99_999_999,
        "commit": "f" * 64,
        "key": f"models/{'d' * 63}/99999999-{'f' * 64}/server.safetensors",
    },
}


def test_the_largest_message_is_well_under_8_kb() -> None:
    assert len(Subtask.from_json(json.dumps(MESSAGE)).to_json()) < 1024


def test_a_training_subtask_names_no_model() -> None:
    message = Subtask(job="d", run="00000001", epoch=1, subtask="train-000000")
    assert Subtask.from_json(message.to_json()).model is None


def test_an_evaluation_names_its_version() -> None:
    assert Subtask.from_json(json.dumps(MESSAGE)).model == ModelRef.model_validate(MESSAGE["model"])


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"job": "D"}, "job"),
        ({"run": "xyz"}, "run"),
        ({"epoch": -1}, "epoch"),
        ({"model": {"version": 1}}, "model.commit"),
        ({"data": [1, 2, 3]}, "data"),
    ],
)
def test_a_wrong_message_is_refused(changes: dict[str, Any], place: str) -> None:
    with pytest.raises(Malformed, match=rf"^subtask message: {place}: "):
        Subtask.from_json(json.dumps(MESSAGE | changes))
