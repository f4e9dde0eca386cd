from typing import Any

import numpy as np
import pytest

from spotgrad.protocol.gradient_codec import encode as encode_gradient
from spotgrad.protocol.keys import ModelKey, ResultKey
from spotgrad.protocol.result import (
    Base,
    Evaluated,
    Failed,
    Initialized,
    ModelMetadata,
    Outcome,
    ResultMetadata,
    Sum,
    Trained,
)
from spotgrad.protocol.tensors import checksum, digest, encode
from spotgrad.steps.model_file import ModelReader
from spotgrad.steps.read_results import LoadedResult, load_result
from tests.builders import JOB, ROLES, RUN, Tensors, item, put_result, tensors, train
from tests.fakes.store import FakeStore

ATTEMPT = "ab" * 8
BASE = Base(version=3, commit="cc" * 8, results_merged=7)
MODEL_KEY = ModelKey(JOB, BASE.version, BASE.commit).render()
KEY = ResultKey(JOB, 1, train(1, 0).subtask, ATTEMPT)
INITIALIZE = ResultKey(JOB, 0, "initialize", ATTEMPT)


@pytest.fixture
def store() -> FakeStore:
    made = FakeStore()
    metadata = ModelMetadata(job=JOB, run=RUN, roles=ROLES, **BASE.model_dump())
    made.put(MODEL_KEY, encode(tensors(0.0), metadata.to_header()))
    return made


def trained(**changes: Any) -> Trained:
    return Trained(base=BASE, samples=10, roles=ROLES).model_copy(update=changes)


def loaded(store: FakeStore, key: ResultKey = KEY) -> LoadedResult:
    found = load_result(store, ModelReader(store), key)
    if found is None:
        raise LookupError(key)
    return found


def problem(
    store: FakeStore, outcome: Outcome, body: Tensors, key: ResultKey = KEY, **claims: Any
) -> str | None:
    return loaded(store, put_result(store, key, outcome, body, **claims)).arrival.problem


def test_a_good_result_comes_with_its_tensors_digest_and_norm(store: FakeStore) -> None:
    put_result(store, KEY, trained(), tensors(1.5, counter=4))
    found = loaded(store)
    assert found.arrival.problem is None
    assert found.arrival.update_norm == 3.0  # four elements, each 1.5 away
    assert found.arrival.sha256 == digest(store.get(KEY.render()).body)
    assert (found.arrival.key, found.arrival.item) == (KEY, train(1, 0))
    assert found.tensors["counter"] == 4
    assert found.roles == ROLES


def test_an_expired_result_is_none(store: FakeStore) -> None:
    assert load_result(store, ModelReader(store), KEY) is None


def test_the_base_is_read_once_for_many_results(store: FakeStore) -> None:
    models = ModelReader(store)
    for shard in range(3):
        key = ResultKey(JOB, 1, train(1, shard).subtask, ATTEMPT)
        put_result(store, key, trained(), tensors(1.0))
        load_result(store, models, key)
    assert store.calls["get"] == 4


@pytest.mark.parametrize(
    ("cut", "reason"),
    [
        (slice(0, 0), "truncated"),
        (slice(None, 100), "truncated"),
        (slice(None, -1), "truncated"),
        (slice(8, None), "safetensors"),
    ],
)
def test_a_damaged_file_is_an_arrival_with_a_problem(
    store: FakeStore, cut: slice, reason: str
) -> None:
    put_result(store, KEY, trained(), tensors(1.0))
    store.put(KEY.render(), store.get(KEY.render()).body[cut])
    found = loaded(store)
    assert reason in (found.arrival.problem or "")
    assert (found.arrival.metadata, found.tensors, found.roles) == (None, {}, {})


def test_what_is_not_a_file_of_spotgrad_is_refused(store: FakeStore) -> None:
    store.put(KEY.render(), encode(tensors(), {"format": "pt"}))
    assert loaded(store).arrival.problem == (
        "result header: no 'spotgrad' entry: not a file of spotgrad"
    )
    store.put(KEY.render(), b"\x80\x02csubprocess\ncall\n")
    assert "safetensors" in (loaded(store).arrival.problem or "")


def test_a_metric_that_json_cannot_hold_is_refused_at_the_door(store: FakeStore) -> None:
    """Python's JSON would let NaN through into the head, which then could not be read again."""
    key = ResultKey(JOB, 1, "evaluate-000000", ATTEMPT)
    outcome = Evaluated(version=3, commit=BASE.commit, sums={"loss": Sum(total=1, count=1)})
    header = ResultMetadata(
        job=JOB,
        run=RUN,
        epoch=1,
        subtask=key.subtask,
        attempt=ATTEMPT,
        worker="w",
        outcome=outcome,
    ).to_header()["spotgrad"]
    for forged in (header.replace("1.0", "NaN"), header.replace("1.0", "1e999")):
        store.put(key.render(), encode({}, {"spotgrad": forged}))
        found = loaded(store, key).arrival.problem or ""
        assert "sums.loss.total: Input should be a finite number" in found


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ({"job": "other"}, "other/1/train-000000/abababababababab"),
        ({"epoch": 2}, "digits/2/train-000000/abababababababab"),
        ({"subtask": "train-000001"}, "digits/1/train-000001/abababababababab"),
        ({"attempt": "cd" * 8}, "digits/1/train-000000/cdcdcdcdcdcdcdcd"),
    ],
)
def test_a_header_that_belongs_elsewhere_is_refused(
    store: FakeStore, claim: dict[str, Any], said: str
) -> None:
    found = problem(store, trained(), tensors(1.0), **claim)
    assert found == f"its header belongs to {said}"


def test_a_number_that_changed_on_its_way_is_refused_though_it_is_finite(store: FakeStore) -> None:
    good = checksum(tensors(1.0))
    assert problem(store, trained(), tensors(1.0), data_crc32=good) is None
    assert problem(store, trained(), tensors(1.5), data_crc32=good) == (
        f"the data's CRC-32 is {checksum(tensors(1.5)):08x}: expected {good:08x}, "
        "as its header says: it was damaged on its way"
    )


def test_a_first_model_that_changed_on_its_way_is_refused(store: FakeStore) -> None:
    outcome = Initialized(roles=ROLES)
    found = problem(store, outcome, tensors(1.0), INITIALIZE, data_crc32=1)
    assert found is not None
    assert "expected 00000001" in found


@pytest.mark.parametrize("samples", [0, -1])
def test_a_result_of_no_samples_is_refused(store: FakeStore, samples: int) -> None:
    found = problem(store, trained(samples=samples), tensors(1.0))
    assert found == f"samples is {samples}: expected a positive integer"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"weight": np.zeros((2, 3), np.float32)}, "tensor 'weight' has shape (2, 3)"),
        ({"weight": np.zeros((2, 2), np.int32)}, "tensor 'weight' has dtype int32"),
        ({"weight": np.full((2, 2), np.nan, np.float32)}, "tensor 'weight' holds nan at element 0"),
        ({"weight": np.full((2, 2), np.inf, np.float32)}, "tensor 'weight' holds inf at element 0"),
        ({"extra": np.zeros(1, np.float32)}, "tensor 'extra' is unknown"),
    ],
)
def test_the_gate_names_the_tensor(store: FakeStore, body: Tensors, reason: str) -> None:
    assert (problem(store, trained(), tensors(1.0) | body) or "").startswith(reason)


def test_a_missing_tensor_is_named(store: FakeStore) -> None:
    body = tensors(1.0)
    del body["counter"]
    assert (problem(store, trained(), body) or "").startswith("tensor 'counter' is missing")


def test_a_base_that_does_not_exist_is_refused(store: FakeStore) -> None:
    other = Base(version=4, commit="dd" * 8, results_merged=7)
    assert problem(store, trained(base=other), tensors(1.0)) == (
        f"it began from version 4, commit {'dd' * 8}, which does not exist"
    )


def test_a_base_outside_the_key_grammar_is_refused(store: FakeStore) -> None:
    other = BASE.model_copy(update={"version": 10**9})
    found = problem(store, trained(base=other), tensors(1.0)) or ""
    assert found.startswith("it began from version 1000000000, commit")
    assert "version 1000000000: not a whole number of at most 8 digits" in found


def test_a_base_that_is_damaged_is_refused(store: FakeStore) -> None:
    store.put(MODEL_KEY, store.get(MODEL_KEY).body[:-1])
    found = problem(store, trained(), tensors(1.0)) or ""
    assert found.startswith(f"it began from version 3, commit {BASE.commit}: safetensors: ")


def test_a_wrong_count_of_merged_results_is_refused(store: FakeStore) -> None:
    other = BASE.model_copy(update={"results_merged": 0})
    assert problem(store, trained(base=other), tensors(1.0)) == (
        f"it says its base held 0 results: {MODEL_KEY} says 7"
    )


def test_a_first_model_needs_no_base() -> None:
    store = FakeStore()
    key = put_result(store, INITIALIZE, Initialized(roles=ROLES), tensors(2.0))
    found = loaded(store, key)
    assert (found.arrival.problem, found.arrival.update_norm) == (None, 0.0)
    assert found.arrival.item == item(0, "initialize")
    assert found.roles == ROLES


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "it holds no tensors"),
        (tensors() | {"bias": np.zeros(2, np.float32)}, "tensor 'bias' has no role"),
        (
            tensors() | {"weight": np.full((2, 2), np.nan, np.float32)},
            "tensor 'weight' holds nan at element 0: expected finite values",
        ),
    ],
)
def test_a_first_model_that_cannot_be_one_is_refused(body: Tensors, reason: str) -> None:
    store = FakeStore()
    assert problem(store, Initialized(roles=ROLES), body, INITIALIZE) == reason


@pytest.mark.parametrize(
    "outcome",
    [
        Failed(error="boom", traceback=""),
        Evaluated(version=9, commit="ee" * 8, sums={}),
    ],
)
def test_failures_and_evaluations_have_no_tensors_to_inspect(
    store: FakeStore, outcome: Outcome
) -> None:
    found = loaded(store, put_result(store, KEY, outcome))
    assert (found.arrival.problem, found.arrival.update_norm, found.roles) == (None, 0.0, {})


def test_a_gradient_is_judged_by_what_it_decodes_to(store: FakeStore) -> None:
    weight = np.full((2, 2), 0.5, np.float32)
    others = {name: one for name, one in tensors().items() if name != "weight"}
    packed = encode_gradient({"weight": weight}, "fp16", others)
    put_result(store, KEY, trained(gradient="fp16"), packed)
    found = loaded(store)
    assert found.arrival.problem is None
    assert found.arrival.update_norm == 1.0
    assert found.tensors["weight"].tolist() == weight.tolist()


def test_a_gradient_that_cannot_be_decoded_is_refused(store: FakeStore) -> None:
    said = problem(store, trained(gradient="fp16"), tensors())
    assert said is not None
    assert "expected <codec>/<part>/<name>" in said
