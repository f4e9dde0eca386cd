import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from infra.local.cloud import Cloud, connect_notifications, queue_depth
from infra.local.delivery import DuplicateEvery
from infra.local.function import EnvironmentDied
from infra.local.pump import Invoker, Pump, Wiring
from infra.local.topology import Topology
from spotgrad.aws.clients import Clients


class Function:
    """Stands in for a deployed function: passes its events on, does as it is told."""

    def __init__(self, behave: Callable[[Any], object] = lambda _event: None) -> None:
        self.events: queue.Queue[Any] = queue.Queue()
        self.closed = threading.Event()
        self._behave = behave

    def invoke(self, event: object) -> object:
        self.events.put(event)
        return self._behave(event)

    def close(self) -> None:
        self.closed.set()

    def bodies(self, count: int) -> list[str]:
        """Wait for that many records."""
        found: list[str] = []
        while len(found) < count:
            found += [record["body"] for record in self.events.get(timeout=30)["Records"]]
        return found


@pytest.fixture
def functions() -> dict[str, Function]:
    return {name: Function() for name in ("PlanFunction", "AggregateFunction", "ReconcileFunction")}


def wire(
    topology: Topology, cloud: Cloud, clients: Clients, functions: Mapping[str, Invoker]
) -> Wiring:
    return Wiring(
        topology, cloud, functions, clients.sqs, now=lambda: datetime(2026, 1, 1, tzinfo=UTC)
    )


def test_an_upload_reaches_plan_a_result_reaches_aggregate_and_time_reaches_reconcile(
    topology: Topology, cloud: Cloud, clients: Clients, functions: dict[str, Function]
) -> None:
    connect_notifications(topology, cloud, clients)
    reconcile = replace(topology.functions["ReconcileFunction"], schedule_seconds=1)
    topology = replace(topology, functions={**topology.functions, "ReconcileFunction": reconcile})
    pump = Pump(wire(topology, cloud, clients, functions))
    pump.start()
    clients.s3.put_object(Bucket=cloud.bucket, Key="jobs/a/job.yaml", Body=b"")
    clients.s3.put_object(Bucket=cloud.bucket, Key="results/a/b.safetensors", Body=b"")
    uploads = functions["PlanFunction"].bodies(2)
    results = functions["AggregateFunction"].bodies(2)
    tick = functions["ReconcileFunction"].events.get(timeout=30)
    pump.stop()
    pump.check()
    assert sum("s3:TestEvent" in body for body in uploads + results) == 2
    assert sum("job.yaml" in body for body in uploads) == 1
    assert sum("b.safetensors" in body for body in results) == 1
    assert tick["detail-type"] == "Scheduled Event"
    assert pump.counters.snapshot()["PlanFunction"].acknowledged == 2
    assert queue_depth(cloud.queue_urls["UploadsQueue"], clients) == 0


def test_no_more_run_at_once_than_the_source_allows_and_stop_kills_them(
    topology: Topology, cloud: Cloud, clients: Clients, functions: dict[str, Function]
) -> None:
    def hang_until_killed(_event: object) -> object:
        assert functions["AggregateFunction"].closed.wait(30)
        raise EnvironmentDied("killed")

    functions["AggregateFunction"] = Function(hang_until_killed)
    source = replace(topology.functions["AggregateFunction"].event_sources[0], batch_size=1)
    aggregate = replace(topology.functions["AggregateFunction"], event_sources=(source,))
    topology = replace(topology, functions={"AggregateFunction": aggregate})
    url = cloud.queue_urls["ResultsQueue"]
    for number in range(4):
        clients.sqs.send_message(QueueUrl=url, MessageBody=str(number))
    pump = Pump(wire(topology, cloud, clients, functions))
    pump.start()
    functions["AggregateFunction"].bodies(2)
    pump.stop(grace_seconds=0.1)
    pump.check()
    assert functions["AggregateFunction"].closed.is_set()
    assert functions["AggregateFunction"].events.empty()  # the other two were never handed over
    assert queue_depth(url, clients) == 4  # and nothing was acknowledged
    assert pump.counters.snapshot()["AggregateFunction"].errors == 2


def test_every_nth_message_arrives_twice(
    topology: Topology, cloud: Cloud, clients: Clients, functions: dict[str, Function]
) -> None:
    url = cloud.queue_urls["ResultsQueue"]
    for number in range(4):
        clients.sqs.send_message(QueueUrl=url, MessageBody=str(number))
    wiring = wire(topology, cloud, clients, functions)
    pump = Pump(replace(wiring, deliver=DuplicateEvery(2)))
    pump.start()
    bodies = functions["AggregateFunction"].bodies(6)
    pump.stop()
    assert len(bodies) == 6
    assert set(bodies) == {"0", "1", "2", "3"}
    assert queue_depth(url, clients) == 0


def test_a_defect_of_the_pump_is_not_swallowed(
    topology: Topology, cloud: Cloud, clients: Clients, functions: dict[str, Function]
) -> None:
    broken = threading.Event()

    def defect(_event: object) -> object:
        broken.set()
        raise ZeroDivisionError

    functions["PlanFunction"] = Function(defect)
    clients.sqs.send_message(QueueUrl=cloud.queue_urls["UploadsQueue"], MessageBody="x")
    pump = Pump(wire(topology, cloud, clients, functions))
    pump.start()
    assert broken.wait(30)
    pump.stop()
    with pytest.raises(RuntimeError, match="pump broke") as caught:
        pump.check()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
