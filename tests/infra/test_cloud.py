import json
from dataclasses import replace

import pytest

from infra.local.cloud import Cloud, WiringFailed, connect_notifications, create_cloud, queue_depth
from infra.local.template import QueueUrl
from infra.local.topology import Topology
from spotgrad.aws.clients import Clients


def test_queues_are_made_as_the_template_says(
    topology: Topology, cloud: Cloud, clients: Clients
) -> None:
    assert set(cloud.queue_urls) == set(topology.queues)
    found = clients.sqs.get_queue_attributes(
        QueueUrl=cloud.queue_urls["SubtasksQueue"], AttributeNames=["All"]
    )["Attributes"]
    assert found["VisibilityTimeout"] == "5"
    assert found["MessageRetentionPeriod"] == "345600"
    assert json.loads(found["RedrivePolicy"]) == {
        "deadLetterTargetArn": topology.queues["SubtasksDeadLetterQueue"].arn,
        "maxReceiveCount": 25,
    }


def test_a_functions_environment_gets_the_real_urls(topology: Topology, cloud: Cloud) -> None:
    environment = cloud.environment({"A": "text", "B": QueueUrl("SubtasksQueue")})
    assert environment == {"A": "text", "B": cloud.queue_urls["SubtasksQueue"]}
    assert cloud.queue_urls["SubtasksQueue"].endswith(topology.queues["SubtasksQueue"].name)


def test_only_what_is_uploaded_after_connecting_is_announced(
    topology: Topology, cloud: Cloud, clients: Clients
) -> None:
    uploads, results = cloud.queue_urls["UploadsQueue"], cloud.queue_urls["ResultsQueue"]
    clients.s3.put_object(Bucket=cloud.bucket, Key="jobs/old/job.yaml", Body=b"")
    assert (queue_depth(uploads, clients), queue_depth(results, clients)) == (0, 0)
    connect_notifications(topology, cloud, clients)
    before = (queue_depth(uploads, clients), queue_depth(results, clients))
    assert min(before) >= 1  # S3's test events
    for key in ("jobs/new/job.yaml", "jobs/new/control.json", "models/new/server.safetensors"):
        clients.s3.put_object(Bucket=cloud.bucket, Key=key, Body=b"")
    clients.s3.put_object(Bucket=cloud.bucket, Key="results/a/b.safetensors", Body=b"")
    after = (queue_depth(uploads, clients), queue_depth(results, clients))
    assert (after[0] - before[0], after[1] - before[1]) == (2, 1)


def test_a_queue_that_hears_nothing_is_noticed(
    topology: Topology, cloud: Cloud, clients: Clients
) -> None:
    silent = clients.sqs.create_queue(QueueName=f"{topology.bucket.name}-silent")["QueueUrl"]
    miswired = replace(cloud, queue_urls={**cloud.queue_urls, "ResultsQueue": silent})
    with pytest.raises(WiringFailed, match="ResultsQueue: S3's test event did not arrive"):
        connect_notifications(topology, miswired, clients)


def test_a_configuration_that_reads_back_otherwise_is_noticed(
    topology: Topology, cloud: Cloud, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        clients.s3, "put_bucket_notification_configuration", lambda **_ignored: None
    )
    with pytest.raises(WiringFailed, match="wanted"):
        connect_notifications(topology, cloud, clients)


def test_a_queue_of_another_account_is_noticed(topology: Topology, clients: Clients) -> None:
    queue = replace(topology.queues["ResultsQueue"], arn="arn:aws:sqs:us-east-1:1:elsewhere")
    with pytest.raises(WiringFailed, match="elsewhere"):
        create_cloud(replace(topology, queues={"ResultsQueue": queue}), clients)
