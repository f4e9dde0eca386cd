"""What a hostile hand or a broken tool puts into the bucket: refused in one line, and alone.

Here the functions meet it among good neighbours, which must not suffer. Each reader is tried to its
limits beside its own module:

    pickle, torch.save and other formats           protocol/test_tensors, cli/test_source (npz)
    no unpickling, no YAML constructor in the code architecture/test_data_is_not_code
    YAML tags, anchors, merge keys, bombs          protocol/test_plain_yaml
    zip slip, links, bombs, lying sizes, twins     protocol/test_bundle
    a bundle too large, or other than planned      steps/test_plan_job, worker_image/test_inputs
    shard keys outside the data set                protocol/test_dataset, steps/test_plan_job
    safetensors headers that lie                   protocol/test_tensors, test_tensor_header
    names: in keys, job files, commands            protocol/test_keys, cli/test_hostile_names
    keys that lead out of a directory bucket       directory/test_paths, test_store
"""

import io
import json
import pickle  # noqa: TID251 - to prove that a pickle is refused
import struct
import zipfile
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

import numpy as np
import pytest

from spotgrad.protocol.events import s3_notification
from spotgrad.protocol.keys import ManifestKey, RefusedKey, RejectionKey
from spotgrad.protocol.refusal import Refusal, Rejection
from spotgrad.steps.audit import audit
from spotgrad.steps.documents import find_head, read_document
from tests.builders import manifest
from tests.functions.cloud import JOB, Cloud, failed, sqs_event

SHARD_0 = manifest().splits["train"].shards[0].key


def header_of(length: int, text: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", length) + text + data


def claiming(body: bytes, **lies: Any) -> bytes:
    """The file with other claims about its tensor ``weight``."""
    length = int.from_bytes(body[:8], "little")
    header = json.loads(body[8 : 8 + length])
    header["weight"].update(lies)
    text = json.dumps(header).encode()
    return header_of(len(text), text, body[8 + length :])


def as_npz(_: bytes) -> bytes:
    file = io.BytesIO()
    np.savez(file, weight=np.array([{}], dtype=object))
    return file.getvalue()


def as_torch_file(_: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:  # what torch.save writes
        archive.writestr("archive/data.pkl", pickle.dumps({"weight": [1.0]}))
    return file.getvalue()


RESULTS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a pickle": (lambda _: pickle.dumps({"weight": [1.0]}), "safetensors: "),
    "a torch.save file": (as_torch_file, "safetensors: "),
    "an npz of objects": (as_npz, "safetensors: "),
    "nothing": (lambda _: b"", "the file is truncated"),
    "a header longer than the file": (lambda body: header_of(10**6, body[8:]), "truncated"),
    "a header of 16 EB": (lambda body: b"\xff" * 8 + body[8:], "over the limit of 16000000"),
    "a terabyte in 16 bytes": (lambda body: claiming(body, shape=[2**38]), "not 16"),
    "a shape that wraps": (lambda body: claiming(body, shape=[2**33, 2**33]), "beyond any memory"),
    "a negative shape": (lambda body: claiming(body, shape=[-2, -2]), "the shape is not a list"),
    "another item size": (lambda body: claiming(body, dtype="F64"), "takes 32 bytes, not 16"),
    "an offset past the end": (
        lambda body: claiming(body, data_offsets=[10**9, 10**9 + 16]),
        "leaves a hole",
    ),
    "an overlap": (lambda body: claiming(body, data_offsets=[0, 16]), "overlaps the one before"),
    "bytes left over": (lambda body: body + b"\0" * 8, "followed by something else"),
}


@pytest.mark.parametrize(("twist", "reason"), RESULTS.values(), ids=RESULTS.keys())
def test_a_hostile_result_is_refused_and_its_neighbours_are_merged(
    cloud: Cloud, twist: Callable[[bytes], bytes], reason: str
) -> None:
    cloud.start(JOB)
    cloud.bodies()
    before, bad, after = (cloud.trained(JOB, shard) for shard in range(3))
    cloud.store.put(bad.render(), twist(cloud.store.get(bad.render()).body))
    assert cloud.call("aggregate", cloud.created(before, bad, after)) == failed()
    sidecar = RejectionKey(bad.job, bad.epoch, bad.subtask, bad.attempt).render()
    said = read_document(cloud.store, sidecar, Rejection).reason
    assert reason in said
    assert "\n" not in said
    assert cloud.subtasks() == [(JOB, 1, bad.subtask)]  # it alone goes out again
    assert cloud.head().results_merged == 2
    assert audit(cloud.store, JOB).findings == ()
    assert cloud.call("aggregate", cloud.created(cloud.trained(JOB, 1))) == failed()
    assert cloud.head().results_merged == 3


KEYS = [
    "results/../state/digits/000001/train-000000/deadbeef.safetensors",
    "results/digits/../other/000001/train-000000/deadbeef.safetensors",
    "/results/digits/000001/train-000000/deadbeef.safetensors",
    "results/digits/000001/train-000000/..%2Fdeadbeef.safetensors",
    "results/DIGITS/000001/train-000000/deadbeef.safetensors",
    "results/digits\n/000001/train-000000/deadbeef.safetensors",
    "results/d\u0131gits/000001/train-000000/deadbeef.safetensors",
    f"results/{'d' * 64}/000001/train-000000/deadbeef.safetensors",
    "results/digits/000001/train-000000/deadbeef.safetensors\n",
    "results/digits/000001/train-000000\\deadbeef.safetensors",
]


@pytest.mark.parametrize("key", KEYS)
def test_a_hostile_key_goes_back_and_its_neighbours_are_merged(cloud: Cloud, key: str) -> None:
    cloud.start(JOB)
    before, after = cloud.trained(JOB, 0), cloud.trained(JOB, 1)
    assert cloud.call("aggregate", cloud.created(before, key, after)) == failed(1)
    assert cloud.head().results_merged == 2


def test_a_hostile_key_hides_no_result_of_its_own_message(cloud: Cloud) -> None:
    cloud.start(JOB)
    keys = [cloud.trained(JOB, 0).render(), KEYS[0], cloud.trained(JOB, 1).render()]
    records = [json.loads(s3_notification(cloud.bucket, key))["Records"][0] for key in keys]
    event = sqs_event(json.dumps({"Records": records}))
    assert cloud.call("aggregate", event) == failed(0)
    assert cloud.head().results_merged == 2


@pytest.mark.parametrize(
    "key",
    [
        "jobs/../state/digits/job.yaml",
        "jobs/Digits/job.yaml",
        "jobs/digits/../other/job.yaml",
        "jobs/digits%2F..%2Fother/job.yaml",
        "jobs/d\u0131gits/job.yaml",
        "jobs/digits\n/job.yaml",
        "jobs/digits/job.yaml\n",
        f"jobs/{'d' * 64}/job.yaml",
        "jobs/../../control.json",
        "jobs/digits/sub/control.json",
    ],
)
def test_an_upload_under_a_hostile_key_is_passed_over(cloud: Cloud, key: str) -> None:
    good = cloud.upload()
    assert cloud.call("plan", cloud.created(key, good)) == failed()
    assert cloud.subtasks() == [(JOB, 0, "initialize")]
    assert {info.key.split("/")[1] for info in cloud.store.list("state/")} == {JOB}


def test_a_key_that_was_encoded_twice_is_another_key(cloud: Cloud) -> None:
    cloud.start(JOB)
    key = cloud.trained(JOB, 0).render()
    assert cloud.call("aggregate", cloud.created(quote_plus(key))) == failed(0)
    assert cloud.head().results_merged == 0


@pytest.mark.parametrize(
    "key",
    [
        "datasets/digits/../../state/digits/head.json",
        SHARD_0.replace("datasets/digits", "datasets/secret"),
        f"/{SHARD_0}",
    ],
)
def test_a_job_on_a_hostile_manifest_is_refused_in_writing(cloud: Cloud, key: str) -> None:
    upload = cloud.upload()
    text = manifest().to_json().decode().replace(SHARD_0, key)
    cloud.store.put(ManifestKey("digits").render(), text.encode())
    assert cloud.call("plan", cloud.created(upload)) == failed()
    reason = read_document(cloud.store, RefusedKey(JOB).render(), Refusal).reason
    assert reason.startswith("job file: dataset: data set 'digits' is damaged (data set manifest: ")
    assert repr(key) in reason
    assert find_head(cloud.store, JOB) is None
    assert cloud.subtasks() == []
