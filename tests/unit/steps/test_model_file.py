from collections.abc import Sequence

import numpy as np
import pytest

from spotgrad.errors import Malformed, NotFound
from spotgrad.protocol.head import Head, ObjectRef
from spotgrad.protocol.ledger import plain_recipe
from spotgrad.protocol.result import ModelMetadata, Role
from spotgrad.protocol.tensors import TensorFile, decode, digest, encode
from spotgrad.steps.model_file import ModelReader, gather, merged_bodies, model_body, roles_of
from tests.builders import JOB, ROLES, RUN, Tensors, begun, job_plan, tensors
from tests.fakes.store import FakeStore

KEY = "models/digits/server.safetensors"


def merged_body(
    made: Head, start: TensorFile, clients: Sequence[Tensors], server: float, *weights: float
) -> bytes:
    """Merge by plain coefficients."""
    recipe = plain_recipe(server, weights)
    inputs = gather(recipe, {"server": start.tensors}, clients, lambda number: clients[number])
    return merged_bodies(made, recipe, inputs, roles_of(start))["server"]


HEAD = begun(job_plan()).model_copy(update={"results_merged": 3, "version": 2})


def test_a_file_is_fetched_once_however_often_it_is_read() -> None:
    store = FakeStore()
    body = model_body(HEAD, tensors(1.0), ROLES)
    store.put(KEY, body)
    models = ModelReader(store)
    reference = ObjectRef(key=KEY, sha256=digest(body), size_bytes=len(body))
    assert models.read(KEY) is models.read_committed(reference)
    assert store.calls["get"] == 1


def test_a_file_that_is_not_what_was_committed_is_malformed() -> None:
    store = FakeStore()
    store.put(KEY, model_body(HEAD, tensors(1.0), ROLES))
    reference = ObjectRef(key=KEY, sha256="0" * 64, size_bytes=1)
    with pytest.raises(Malformed, match=f"{KEY}: its bytes are not those that were committed"):
        ModelReader(store).read_committed(reference)


def test_a_missing_or_damaged_file_is_not_a_model() -> None:
    store = FakeStore()
    with pytest.raises(NotFound, match=KEY):
        ModelReader(store).read(KEY)
    store.put(KEY, b"no safetensors")
    with pytest.raises(Malformed, match="safetensors"):
        ModelReader(store).read(KEY)


def test_the_header_says_what_staleness_is_counted_from() -> None:
    file = decode(model_body(HEAD, tensors(1.0, counter=7), ROLES))
    assert ModelMetadata.from_header(file.metadata) == ModelMetadata(
        job=JOB, run=RUN, version=2, commit=HEAD.commit, results_merged=3, roles=ROLES
    )
    assert file.tensors["counter"] == 7


def test_merging_blends_floats_takes_the_largest_counter_and_keeps_booleans() -> None:
    start = decode(model_body(HEAD, tensors(0.0, counter=100), ROLES))
    client = tensors(1.0, counter=110) | {"flag": np.array([False, True])}
    after = HEAD.model_copy(update={"version": 3, "results_merged": 4})
    merged = decode(merged_body(after, start, [client], 0.75, 0.25))
    assert merged.tensors["weight"].tolist() == [[0.25, 0.25], [0.25, 0.25]]
    assert merged.tensors["weight"].dtype == np.float32
    assert merged.tensors["counter"].tolist() == 110
    assert merged.tensors["counter"].dtype == np.int64
    assert merged.tensors["flag"].tolist() == [True, False]
    said = ModelMetadata.from_header(merged.metadata)
    assert (said.version, said.results_merged, said.roles) == (3, 4, ROLES)


def test_a_frozen_tensor_is_carried_over_to_the_last_bit() -> None:
    roles: dict[str, Role] = {"weight": "parameter", "embedding": "frozen"}
    value = np.full(64, 0.1, np.float32)
    metadata = ModelMetadata(job=JOB, run=RUN, version=0, commit=RUN, results_merged=0, roles=roles)
    start = decode(encode({"weight": value, "embedding": value}, metadata.to_header()))
    client = {"weight": value, "embedding": value}
    merged = decode(merged_body(HEAD, start, [client, client], 1 / 3, 1 / 3, 1 / 3))
    assert merged.tensors["embedding"].tobytes() == value.tobytes()
    assert merged.tensors["weight"].tobytes() != value.tobytes()  # blending moved the last bit


def test_the_file_used_longest_ago_makes_room() -> None:
    store = FakeStore()
    body = model_body(HEAD, tensors(1.0), ROLES)
    for key in "abc":
        store.put(key, body)
    models = ModelReader(store, limit_bytes=2 * len(body))
    for key in "abaca":  # c makes b go, not a
        models.read(key)
    assert store.calls["get"] == 3
    models.read("b")
    assert store.calls["get"] == 4


def test_a_file_larger_than_the_limit_is_kept_while_it_is_the_last() -> None:
    store = FakeStore()
    store.put("a", model_body(HEAD, tensors(1.0), ROLES))
    models = ModelReader(store, limit_bytes=1)
    assert models.read("a") is models.read("a")


def test_a_file_just_written_is_not_read_again() -> None:
    store = FakeStore()
    body = model_body(HEAD, tensors(1.0), ROLES)
    models = ModelReader(store)
    assert models.keep(KEY, body) == digest(body)
    assert models.read(KEY).tensors["weight"].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert store.calls["get"] == 0
