"""The local run's bucket and queues on ministack: who hears of what, and how often.

ministack announces a multipart upload once and leaves "/" in keys alone, as S3 does and moto does
not; what the functions read must come to the same.
"""

import io

import pytest
from boto3.s3.transfer import TransferConfig

from infra.local.cloud import Cloud, connect_notifications, create_cloud
from infra.local.topology import Topology, read_topology
from spotgrad.aws.clients import Clients
from spotgrad.aws.sqs import SqsQueue
from spotgrad.protocol.events import objects_created

PART_BYTES = 5 * 1024 * 1024  # S3 takes no smaller ones


@pytest.fixture(scope="module")
def topology() -> Topology:
    return read_topology()


@pytest.fixture(scope="module")
def cloud(topology: Topology, clients: Clients) -> Cloud:
    made = create_cloud(topology, clients)
    connect_notifications(topology, made, clients)  # reads back, and looks for the test events
    return made


def heard(cloud: Cloud, clients: Clients, queue: str) -> list[str]:
    """Return the keys that were announced since the last time."""
    url = cloud.queue_urls[queue]
    reader, found = SqsQueue(clients.sqs, url), list[str]()
    while messages := reader.receive(most=10, wait_seconds=1):
        for message in messages:
            found += [event.key for event in objects_created(message.body)]
            reader.delete(message)
    return found


def test_each_queue_hears_of_its_own_objects(cloud: Cloud, clients: Clients) -> None:
    uploads = ["jobs/digits/job.yaml", "jobs/digits/control.json"]
    results = ["results/digits/000001/train-000000/0123456789abcdef.safetensors"]
    for key in (*uploads, *results, "models/digits/x", "state/digits/head.json"):
        clients.s3.put_object(Bucket=cloud.bucket, Key=key, Body=b"")
    assert sorted(heard(cloud, clients, "UploadsQueue")) == sorted(uploads)
    assert heard(cloud, clients, "ResultsQueue") == results


@pytest.mark.parametrize("name", ["a b", "a+b", "é", "a%2Fb", "a=b&c"])
def test_a_key_arrives_as_it_was_put(cloud: Cloud, clients: Clients, name: str) -> None:
    key = f"results/digits/{name}.safetensors"
    clients.s3.put_object(Bucket=cloud.bucket, Key=key, Body=b"")
    assert heard(cloud, clients, "ResultsQueue") == [key]


def test_an_upload_in_parts_is_announced_once(cloud: Cloud, clients: Clients) -> None:
    key = "results/digits/large.safetensors"
    config = TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES)
    body = io.BytesIO(b"x" * (PART_BYTES + 1))
    clients.s3.upload_fileobj(body, cloud.bucket, key, Config=config)
    assert heard(cloud, clients, "ResultsQueue") == [key]
