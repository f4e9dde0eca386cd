"""What the three functions share: Powertools, and the composition root made once per cold start.

Not a place for logic: a function parses its event, calls one step and answers.
"""

from dataclasses import dataclass
from functools import cache, cached_property

from aws_lambda_powertools import Logger, Metrics, Tracer

from spotgrad.aws.clients import Clients, make_clients
from spotgrad.aws.s3 import S3Store
from spotgrad.aws.sqs import SqsQueue
from spotgrad.steps.world import World
from spotgrad.system import SystemClock, new_id

logger = Logger()
tracer = Tracer()
metrics = Metrics()


@dataclass(frozen=True)
class Root:
    """The adapters behind a function's ports."""

    store: S3Store
    subtasks: SqsQueue

    @cached_property
    def world(self) -> World:
        """Return the ports as the steps take them; it remembers what it read while warm."""
        return World(self.store, self.subtasks, SystemClock(), new_id)


@cache
def clients() -> Clients:
    """Return the process's one set of clients."""
    return make_clients()


def make_root(bucket: str, subtasks_queue_url: str) -> Root:
    """Wire a function's ports to S3 and SQS."""
    return Root(S3Store(clients().s3, bucket), SqsQueue(clients().sqs, subtasks_queue_url))
