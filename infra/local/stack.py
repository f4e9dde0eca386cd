"""One laptop's deployment of ``template.yaml``: emulator, resources, functions, event pump.

A context manager: what it starts it ends, whatever happens inside. It knows no job and no worker.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from infra.local.chaos.deliveries import Later
from infra.local.chaos.injector import Injector
from infra.local.chaos.spec import ChaosSpec
from infra.local.child import Child
from infra.local.cloud import Cloud, connect_notifications, create_cloud, queue_depth
from infra.local.delivery import Delivery, once
from infra.local.emulator import MOTO, Emulator, Server
from infra.local.environment import CALLER, child_environment, local_clients
from infra.local.forked import ForkedChild
from infra.local.function import Deployment, FunctionPool
from infra.local.pump import Pump, Wiring
from infra.local.topology import (
    CHAOS_PARAMETERS,
    LOCAL_PARAMETERS,
    FunctionResource,
    Topology,
    read_topology,
)
from spotgrad.aws.clients import Clients
from spotgrad.aws.s3 import S3Store
from spotgrad.aws.sqs import SqsQueue
from spotgrad.system import SystemClock

SUBTASKS = "SubtasksQueue"


@dataclass(frozen=True)
class StackOptions:
    """Where logs go, how events are delivered (tests deliver some twice), and what goes wrong."""

    logs: Path
    deliver: Delivery = once
    chaos: ChaosSpec | None = None
    server: Server = MOTO


class Stack:
    """The deployment, from ``with`` to the end of the block."""

    def __init__(self, options: StackOptions) -> None:
        self._options = options
        self._resources = ExitStack()
        self._pumping = ExitStack()
        self._functions: dict[str, FunctionPool] = {}
        self.chaos: Injector | None = None
        self.topology: Topology = read_topology(
            parameters=LOCAL_PARAMETERS if options.chaos is None else CHAOS_PARAMETERS
        )
        self.lease_seconds = int(LOCAL_PARAMETERS["LeaseSeconds"])

    def __enter__(self) -> Self:
        with ExitStack() as resources:
            log = self._options.logs / "aws.log"
            self.emulator = resources.enter_context(Emulator(log, self._options.server))
            self.endpoint_url = self.emulator.endpoint_url
            if self._options.chaos is not None:
                self.chaos = resources.enter_context(
                    Injector(self._options.chaos, self.emulator.endpoint_url)
                )
                self.endpoint_url = self.chaos.url
            self.clients: Clients = local_clients(self.emulator.endpoint_url)
            self.cloud: Cloud = create_cloud(self.topology, self.clients)
            self.store = S3Store(self.clients.s3, self.cloud.bucket)
            self.subtasks = SqsQueue(self.clients.sqs, self.cloud.queue_urls[SUBTASKS])
            self._resources = resources.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._resources.close()

    def start(self) -> None:
        """Connect the bucket's events and begin to pump; a restored bucket is in place by now."""
        connect_notifications(self.topology, self.cloud, self.clients)
        self._functions = {
            name: self._pool(function) for name, function in self.topology.functions.items()
        }
        self.pump = Pump(
            Wiring(
                topology=self.topology,
                cloud=self.cloud,
                functions=self._functions,
                sqs=self.clients.sqs,
                now=SystemClock().now,
                deliver=self._delivery(self._functions),
            )
        )
        self._pumping = self._resources.enter_context(ExitStack())
        self._pumping.callback(self.pump.stop)
        self.pump.start()

    def calm(self) -> Mapping[str, int]:
        """Let no more go wrong; return how often what did."""
        if self.chaos is None:
            return {}
        self.chaos.calm()
        return self.chaos.counts

    def stop(self) -> None:
        """Stop the events, so that the bucket is at rest; the emulator lives on until the end."""
        self._pumping.close()

    def worker_environment(self, name: str) -> dict[str, str]:
        """Return the environment of one worker process: one thread, or two workers cost ten."""
        extra = {
            "SPOTGRAD_BUCKET": self.cloud.bucket,
            "SPOTGRAD_SUBTASKS_QUEUE_URL": self.cloud.queue_urls[SUBTASKS],
            "SPOTGRAD_LEASE_SECONDS": str(self.lease_seconds),
            "SPOTGRAD_THREADS": "1",
            "SPOTGRAD_WORKER_NAME": name,
            "OMP_NUM_THREADS": "1",
            CALLER: name,
            **(self.chaos.worker_environment(name) if self.chaos else {}),
        }
        return child_environment(self.endpoint_url, extra=extra)

    @property
    def pids(self) -> list[int]:
        """The process ids of the emulator and of the functions."""
        functions = [pid for pids in self.function_pids.values() for pid in pids]
        return [self.emulator.pid, *functions]

    @property
    def function_pids(self) -> Mapping[str, Sequence[int]]:
        """The process ids of the functions, by function."""
        return {name: pool.pids for name, pool in self._functions.items()}

    def busy(self) -> bool:
        """Return whether a queue that somebody reads holds messages; dead letters lie for ever."""
        queues = self.topology.queues.values()
        graves = {queue.redrive.target for queue in queues if queue.redrive is not None}
        return any(depth for name, depth in self.depths().items() if name not in graves)

    def depths(self) -> Mapping[str, int]:
        """Return how many messages each queue holds."""
        urls = self.cloud.queue_urls
        return {name: queue_depth(url, self.clients) for name, url in urls.items()}

    def _delivery(self, functions: Mapping[str, FunctionPool]) -> Delivery:
        if self.chaos is None:
            return self._options.deliver
        self.chaos.arm_functions(lambda name: any(pool.crash(name) for pool in functions.values()))
        urls = {
            queue.arn: self.cloud.queue_urls[name] for name, queue in self.topology.queues.items()
        }
        return self.chaos.deliver(Later(self.clients.sqs, urls), self._options.deliver)

    def _pool(self, function: FunctionResource) -> FunctionPool:
        own = self.cloud.environment(function.environment)
        environment = child_environment(self.endpoint_url, extra=own)
        log = self._options.logs / f"{function.logical_id}.log"
        sources = function.event_sources
        concurrency = max((source.maximum_concurrency for source in sources), default=1)
        deployment = Deployment(function, environment, log, start_of(self._options.chaos))
        return FunctionPool(deployment, concurrency=concurrency)


def start_of(chaos: ChaosSpec | None) -> type[Child]:
    """Return how processes begin: as in the cloud, but where they end by the dozen, forked."""
    return Child if chaos is None else ForkedChild
