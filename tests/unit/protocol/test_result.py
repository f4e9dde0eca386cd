import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotgrad.errors import Malformed
from spotgrad.protocol.result import HEADER, Base, ModelMetadata, ResultMetadata, Trained
from spotgrad.protocol.tensors import encode, read_metadata
from tests.unit.protocol.documents import models

TRAINED: dict[str, Any] = {
    "schema": 1,
    "job": "digits",
    "run": "00000001",
    "epoch": 1,
    "subtask": "train-000003",
    "attempt": "deadbeef",
    "worker": "w",
    "outcome": {
        "kind": "trained",
        "base": {"version": 4, "commit": "cafe0123", "results_merged": 9},
        "samples": 90,
        "roles": {"w": "parameter", "n": "buffer"},
        "sums": {"loss": {"total": 12.5, "count": 90}},
    },
}


def changed(**outcome: Any) -> str:
    return json.dumps(TRAINED | {"outcome": TRAINED["outcome"] | outcome})


@pytest.mark.parametrize("kind", [ResultMetadata, ModelMetadata])
@settings(max_examples=20)
@given(data=st.data())
def test_a_header_is_read_back_from_a_tensor_file(
    kind: type[ResultMetadata | ModelMetadata], data: st.DataObject
) -> None:
    header = data.draw(models(kind))
    body = encode({"w": np.ones(3, "f4")}, header.to_header())
    assert kind.from_header(read_metadata(body)) == header


def test_the_outcome_is_told_apart_by_its_kind() -> None:
    outcome = ResultMetadata.from_json(json.dumps(TRAINED)).outcome
    assert isinstance(outcome, Trained)
    assert outcome.base == Base(version=4, commit="cafe0123", results_merged=9)
    assert outcome.samples == 90
    assert outcome.roles == {"w": "parameter", "n": "buffer"}


def test_a_file_of_someone_else_is_refused() -> None:
    with pytest.raises(Malformed, match="result header: no 'spotgrad' entry: not a file of"):
        ResultMetadata.from_header({"format": "pt"})
    with pytest.raises(Malformed, match="model header: document: Invalid JSON"):
        ModelMetadata.from_header({HEADER: "pt"})


@pytest.mark.parametrize("samples", [0, -1])
def test_a_sample_count_is_a_claim_that_the_gate_judges(samples: int) -> None:
    outcome = ResultMetadata.from_json(changed(samples=samples)).outcome
    assert isinstance(outcome, Trained)
    assert outcome.samples == samples


@pytest.mark.parametrize(
    ("outcome", "place"),
    [
        ({"kind": "guessed"}, "outcome"),
        ({"samples": None}, "outcome.trained.samples"),
        ({"samples": 1.5}, "outcome.trained.samples"),
        ({"samples": math.nan}, "outcome.trained.samples"),
        ({"samples": True}, "outcome.trained.samples"),
        ({"base": None}, "outcome.trained.base"),
        ({"roles": {"w": "weight"}}, "outcome.trained.roles.w"),
        ({"sums": {"loss": {"total": 1, "count": 0}}}, "outcome.trained.sums.loss.count"),
        ({"traceback": "x"}, "outcome.trained.traceback"),
    ],
)
def test_a_wrong_outcome_is_refused_by_its_place(outcome: dict[str, Any], place: str) -> None:
    with pytest.raises(Malformed, match=rf"^result header: {place}: "):
        ResultMetadata.from_json(changed(**outcome))
