"""The deployed stack does what the local run does: `make e2e-deployed`. Not collected by itself.

sam builds and deploys template.yaml to ministack, a second AWS that has nothing in common with moto
and the local run's event pump: notifications, event source mappings, schedule and handlers are the
deployed ones. What is compared is what must be the same in both.
"""

import hashlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load

from infra.local.home import Home
from infra.local.run import RunOptions, local_run
from infra.local.topology import read_topology
from spotgrad.cli.code import pack_code
from spotgrad.cli.job import load_job
from spotgrad.directory.store import DirectoryStore
from spotgrad.ports import ObjectStore
from spotgrad.steps.audit import audit
from spotgrad.steps.chain import read_head
from spotgrad.steps.documents import find_head
from tests.deployed.alike import deployed_topology
from tests.deployed.cloud import PARAMETERS, Deployed, deploy, deployed
from tests.deployed.tools import FUNCTIONS, THIS_MACHINE, build
from tests.e2e.commands import COMMAND, small_digits
from tests.infra.conftest import is_alive

pytestmark = pytest.mark.timeout(3600)

NAME = "digits-cnn"
LOST = "lost-and-found"
EPOCHS, SHARDS = 2, 4
MOST_SECONDS = 1200.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with deployed(tmp_path_factory.mktemp("deployed")) as running:
        yield running


def job_of_one_in_flight(folder: Path) -> Path:
    """Write a job whose results can only be merged in one order."""
    return small_digits(
        folder,
        epochs=EPOCHS,
        shards=SHARDS,
        seed=7,
        workers={"max": 1},
        schedule={"issue": "barrier", "max_in_flight": 1},
        evaluate={"every_epochs": 1, "split": "validation"},
    )


def test_the_job_ends_with_the_parameters_of_the_local_run(stack: Deployed, tmp_path: Path) -> None:
    job_file = job_of_one_in_flight(tmp_path / "job")
    with workers(stack, 2, tmp_path):
        push_dataset(stack, job_file)
        upload(stack, job_file)
        state = wait_for_the_end(stack)
    assert state == "SUCCEEDED"
    assert audit(stack.store, NAME).findings == ()

    home = Home(NAME, tmp_path / "local")
    with local_run(RunOptions(load_job(job_file), workers=1), home) as run:
        assert run.watch(lambda *_: None).state == "SUCCEEDED"

    here, there = DirectoryStore(home.bucket), stack.store
    assert read_head(there, NAME).version == read_head(here, NAME).version == EPOCHS * SHARDS
    assert tensors(there) == tensors(here)
    assert dead_letters(stack) == 0


def test_a_lost_message_is_mended_by_the_scheduled_reconcile(
    stack: Deployed, tmp_path: Path
) -> None:
    """Nothing but the schedule's next tick knows of it: no event, no message, no worker."""
    job_file = small_digits(tmp_path / "job", epochs=1, shards=2, name=LOST, dataset=LOST)
    push_dataset(stack, job_file, LOST)
    upload(stack, job_file, LOST)
    lose_one_message(stack)
    with workers(stack, 1, tmp_path):
        assert wait_for_the_end(stack, LOST) == "SUCCEEDED"
    assert read_head(stack.store, LOST).counts.reissued >= 1


def test_what_the_local_run_would_create_is_what_is_deployed(stack: Deployed) -> None:
    """With the same parameters: queues, notifications, functions, event sources, schedule."""
    wanted = read_topology(parameters=PARAMETERS)
    found = deployed_topology(stack, wanted)
    assert found.queues == wanted.queues
    assert set(found.bucket.notifications) == set(wanted.bucket.notifications)
    assert found.bucket.name == wanted.bucket.name
    for name, function in wanted.functions.items():
        topic = {"SPOTGRAD_TOPIC_ARN": stack.physical_ids["Topic"]}  # the local run has none
        known = {key: topic[key] for key in topic if key in function.environment}
        told = replace(function, environment={**function.environment, **known})
        assert found.functions[name] == told


def test_building_and_deploying_again_uploads_nothing_new(stack: Deployed, tmp_path: Path) -> None:
    before = code_digests(stack)
    artifacts = stack.client("s3").list_objects_v2(Bucket="artifacts")["KeyCount"]
    deploy(build(tmp_path / "again", **THIS_MACHINE), stack.endpoint_url)
    assert code_digests(stack) == before
    assert stack.client("s3").list_objects_v2(Bucket="artifacts")["KeyCount"] <= artifacts + 1


@contextmanager
def workers(stack: Deployed, number: int, folder: Path) -> Iterator[list[int]]:
    """Start worker processes by hand, and stop them as a person would: with SIGTERM."""
    with ExitStack() as running:
        pids = []
        for name in (f"by-hand-{one}" for one in range(number)):
            log = running.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "worker_image"],
                env=stack.worker_environment(name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            running.callback(process.wait, 60)
            running.callback(process.terminate)
            pids.append(process.pid)
        yield pids
        assert all(map(is_alive, pids)), f"a worker ended by itself; see {folder}"


def lose_one_message(stack: Deployed) -> None:
    """Take the first subtask from the queue and delete it, as if it had never been sent."""
    sqs, url = stack.clients.sqs, stack.outputs["SubtasksQueueUrl"]
    deadline = time.monotonic() + MOST_SECONDS
    while time.monotonic() < deadline:
        for message in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20).get("Messages", []):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            return
    raise AssertionError("no subtask was ever sent")


def push_dataset(stack: Deployed, job_file: Path, name: str = "digits") -> None:
    subprocess.run(
        [COMMAND, "dataset", "push", name, "digits.py", "--bucket", stack.bucket],
        cwd=job_file.parent,
        env=stack.worker_environment("user"),
        stdout=subprocess.DEVNULL,
        check=True,
    )


def upload(stack: Deployed, job_file: Path, name: str = NAME) -> None:
    """Upload the code and the job file with plain boto3: from here on there are only events."""
    s3, code = stack.client("s3"), pack_code(load_job(job_file))
    assert code is not None
    sha256 = hashlib.sha256(code).hexdigest()
    s3.put_object(Bucket=stack.bucket, Key=f"jobs/{name}/code-{sha256}.zip", Body=code)
    s3.upload_file(str(job_file), stack.bucket, f"jobs/{name}/job.yaml")


def wait_for_the_end(stack: Deployed, name: str = NAME) -> str:
    deadline, never = time.monotonic() + MOST_SECONDS, threading.Event()
    while time.monotonic() < deadline:
        present = find_head(stack.store, name)
        if present is not None and present.head.ended:
            return present.head.state
        never.wait(1)
    raise AssertionError(f"no end within {MOST_SECONDS} s: {find_head(stack.store, name)}")


def tensors(store: ObjectStore) -> Mapping[str, tuple[str, tuple[int, ...], bytes]]:
    """Return the final parameters, bit for bit."""
    reference = read_head(store, NAME).objects["server"]
    loaded = load(store.get(reference.key).body)
    return {name: (str(one.dtype), one.shape, one.tobytes()) for name, one in loaded.items()}


def code_digests(stack: Deployed) -> dict[str, Any]:
    functions = stack.client("lambda")
    return {
        name: functions.get_function_configuration(FunctionName=stack.physical_ids[name])[
            "CodeSha256"
        ]
        for name in FUNCTIONS
    }


def dead_letters(stack: Deployed) -> int:
    names = [name for name in stack.physical_ids if name.endswith("DeadLetterQueue")]
    assert len(names) == 3
    answers = [
        stack.clients.sqs.get_queue_attributes(
            QueueUrl=stack.physical_ids[name], AttributeNames=["ApproximateNumberOfMessages"]
        )
        for name in names
    ]
    return sum(int(answer["Attributes"]["ApproximateNumberOfMessages"]) for answer in answers)
