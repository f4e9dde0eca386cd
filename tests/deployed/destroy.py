"""``spotgrad destroy`` on a deployed stack: `make e2e-deployed`. Not collected by itself.

A stack of its own, as none is left at the end: real sam, and ministack for AWS.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.deployed.cloud import STACK, Deployed, deployed
from tests.deployed.tools import SAM
from tests.e2e.commands import COMMAND

pytestmark = pytest.mark.timeout(1800)

SAM_HERE = """#!{python}
from samcli.lib.package import packageable_resources

parse = packageable_resources.parse_s3_url
packageable_resources.parse_s3_url = lambda url, *args, **kwargs: parse(
    url.replace("{endpoint}", "https://s3.us-east-1.amazonaws.com"), *args, **kwargs
)

from samcli.cli.main import cli

cli()
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with deployed(tmp_path_factory.mktemp("deployed")) as running:
        yield running


def test_destroy_keeps_every_byte_until_somebody_says_otherwise(
    stack: Deployed, tmp_path: Path
) -> None:
    stack.clients.s3.put_object(Bucket=stack.bucket, Key="models/mine", Body=b"weights")
    before = objects(stack)
    assert before

    kept = destroy(stack, tmp_path)
    assert kept == {"stack": STACK, "bucket": stack.bucket, "bucket_deleted": False}
    with pytest.raises(ClientError, match="does not exist"):
        stack.client("cloudformation").describe_stacks(StackName=STACK)
    queues = stack.clients.sqs.list_queues(QueueNamePrefix=f"{STACK}-")
    assert queues.get("QueueUrls", []) == []
    assert objects(stack) == before

    assert destroy(stack, tmp_path, "--yes-delete-data")["bucket_deleted"]
    names = [row["Name"] for row in stack.clients.s3.list_buckets()["Buckets"]]
    assert stack.bucket not in names


def destroy(stack: Deployed, folder: Path, *flags: str) -> Any:
    """Run ``spotgrad destroy`` as a user who is not to be asked; return its document."""
    environment = stack.worker_environment("user")
    environment["PATH"] = os.pathsep.join((str(sam_here(stack, folder)), environment["PATH"]))
    environment["SAM_CLI_TELEMETRY"] = "0"
    done = subprocess.run(
        [COMMAND, "destroy", "--stack", STACK, "--yes", "--json", *flags],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {key: value for key, value in json.loads(done.stdout).items() if key != "schema"}


def sam_here(stack: Deployed, folder: Path) -> Path:
    """Return a folder with a sam that takes the emulator's address for S3's.

    ``sam deploy`` names the nested template by the endpoint; ``sam delete`` takes AWS's alone.
    """
    (folder / "sam").write_text(
        SAM_HERE.format(python=SAM.with_name("python"), endpoint=stack.endpoint_url),
        encoding="utf-8",
    )
    (folder / "sam").chmod(0o755)
    return folder


def objects(stack: Deployed) -> dict[str, str]:
    pages = stack.clients.s3.get_paginator("list_objects_v2").paginate(Bucket=stack.bucket)
    return {row["Key"]: row["ETag"] for page in pages for row in page.get("Contents", ())}
