"""ministack with the whole stack in it, deployed by an unmodified `sam build && sam deploy`.

A context manager: what it starts it ends. Templates, artifacts and commands are the user's own;
one thing that ministack 1.5.33 does otherwise than AWS is made good afterwards (``_mend``).
"""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import boto3.session

from infra.local.environment import (
    ACCESS_KEY,
    REGION,
    SECRET_KEY,
    child_environment,
    local_clients,
)
from infra.local.topology import LOCAL_PSEUDO
from spotgrad.aws.clients import Clients
from spotgrad.aws.s3 import S3Store
from tests.deployed.tools import ROOT, THIS_MACHINE, build, sam
from tests.ministack.server import THERE

MINISTACK_PYTHON = ROOT / ".venv-ministack" / "bin" / "python"
STACK = LOCAL_PSEUDO["AWS::StackName"]
ARTIFACTS = "artifacts"
PARAMETERS: Mapping[str, str] = {
    "LeaseSeconds": "30",
    "BatchingWindowSeconds": "0",
}
"""Otherwise the template's defaults: a busy machine needs its time for a cold start."""

_ENVIRONMENT = {
    "PYTHONPATH": str(ROOT),
    "MINISTACK_ACCOUNT_ID": LOCAL_PSEUDO["AWS::AccountId"],
    "MINISTACK_REGION": REGION,
    "LOG_LEVEL": "INFO",
    "IOT_MTLS_ENABLED": "0",
    "SFTP_ENABLED": "0",
    "DOCKER_HOST": "unix:///nonexistent/docker.sock",
    "POWERTOOLS_TRACE_DISABLED": "true",  # no X-Ray daemon; handlers inherit it
}


@dataclass(frozen=True)
class Deployed:
    """A deployed stack: where it answers, what it is called, who asks."""

    endpoint_url: str
    outputs: Mapping[str, str]
    physical_ids: Mapping[str, str]
    clients: Clients
    log: Path
    """What ministack says, the functions' own output in it."""

    @property
    def bucket(self) -> str:
        return self.outputs["BucketName"]

    @property
    def store(self) -> S3Store:
        return S3Store(self.clients.s3, self.bucket)

    def client(self, service: str) -> Any:
        """Return a plain boto3 client."""
        return plain_client(self.endpoint_url, service)

    def worker_environment(self, name: str) -> dict[str, str]:
        """Return what somebody who starts a worker by hand sets."""
        extra = {
            "SPOTGRAD_BUCKET": self.bucket,
            "SPOTGRAD_SUBTASKS_QUEUE_URL": self.outputs["SubtasksQueueUrl"],
            "SPOTGRAD_LEASE_SECONDS": PARAMETERS["LeaseSeconds"],
            "SPOTGRAD_WORKER_NAME": name,
            "OMP_NUM_THREADS": "1",
        }
        return child_environment(self.endpoint_url, extra=extra)


def plain_client(endpoint_url: str, service: str) -> Any:
    """Return a boto3 client that knows the emulator alone."""
    session = boto3.session.Session(ACCESS_KEY, SECRET_KEY, region_name=REGION)
    return session.client(service, endpoint_url=endpoint_url)  # type: ignore[call-overload]  # any service


@contextmanager
def ministack(log: Path) -> Iterator[str]:
    """Run ministack on a free loopback port; yield its address."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [MINISTACK_PYTHON, "-P", "-m", "tests.ministack.server", THERE],
            env=child_environment(extra=_ENVIRONMENT),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    try:
        yield f"http://127.0.0.1:{json.loads(_piped(process.stdout).readline())['port']}"
    finally:
        _piped(process.stdin).close()
        process.wait(30)
        _piped(process.stdout).close()


@contextmanager
def deployed(folder: Path) -> Iterator[Deployed]:
    """Build for this machine, deploy to ministack, and yield the stack."""
    artifacts = build(folder / "build", **THIS_MACHINE)
    log = folder / "ministack.log"
    with ministack(log) as endpoint_url:
        plain_client(endpoint_url, "s3").create_bucket(Bucket=ARTIFACTS)
        deploy(artifacts, endpoint_url)
        _mend(endpoint_url)
        yield _look(endpoint_url, log)


def deploy(artifacts: Path, endpoint_url: str) -> str:
    """Run `sam deploy` as a user would, answered in advance; return what it said."""
    overrides = [f"{name}={value}" for name, value in PARAMETERS.items()]
    return sam(
        *("deploy", "--template-file", str(artifacts / "template.yaml")),
        *("--stack-name", STACK, "--s3-bucket", ARTIFACTS, "--region", REGION),
        *("--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--no-progressbar"),
        *("--no-fail-on-empty-changeset", "--parameter-overrides", *overrides),
        endpoint_url=endpoint_url,
    )


def _look(endpoint_url: str, log: Path) -> Deployed:
    formation = plain_client(endpoint_url, "cloudformation")
    (stack,) = formation.describe_stacks(StackName=STACK)["Stacks"]
    pages = formation.get_paginator("list_stack_resources").paginate(StackName=STACK)
    resources = [one for page in pages for one in page["StackResourceSummaries"]]
    return Deployed(
        endpoint_url,
        {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]},
        {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in resources},
        local_clients(endpoint_url),
        log,
    )


def _mend(endpoint_url: str) -> None:
    """Make numbers of texts: CloudFormation does; without, ministack's poller of queues raises."""
    functions = plain_client(endpoint_url, "lambda")
    for source in functions.list_event_source_mappings()["EventSourceMappings"]:
        most = int(source["ScalingConfig"]["MaximumConcurrency"])
        functions.update_event_source_mapping(
            UUID=source["UUID"], ScalingConfig={"MaximumConcurrency": most}
        )


def _piped(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
