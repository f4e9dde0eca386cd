"""A bucket and a subtasks queue on moto, and the events that Lambda hands to a function."""

import importlib
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from spotgrad.aws.s3 import S3Store
from spotgrad.aws.sqs import SqsQueue
from spotgrad.protocol.events import s3_notification
from spotgrad.protocol.head import Head, WorkItem
from spotgrad.protocol.keys import HeadKey, JobFileKey, ManifestKey, ResultKey
from spotgrad.protocol.result import Base, Initialized, ModelMetadata, Outcome, Trained
from spotgrad.protocol.subtask import Subtask
from spotgrad.protocol.tensors import decode
from spotgrad.steps.chain import read_head
from spotgrad.system import new_id
from tests.builders import (
    ROLES,
    SAMPLES,
    Tensors,
    item,
    job_file,
    manifest,
    put_result,
    tensors,
    train,
)
from tests.fakes.store import FakeStore

JOB = "digits"


@dataclass(frozen=True)
class Context:
    """The second argument of a handler, as far as Powertools reads it."""

    function_name: str = "function"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:function"
    aws_request_id: str = "da658bd3-2d6f-4e7b-8ec2-937234644fdc"


@dataclass(frozen=True)
class Cloud:
    """What the functions work on, and the hands of a user and of workers."""

    bucket: str
    store: S3Store
    queue: SqsQueue

    def call(self, function: str, event: dict[str, Any]) -> Any:
        """Invoke ``functions.<function>.app.handler``."""
        app = importlib.import_module(f"functions.{function}.app")
        return app.handler(event, Context())

    def created(self, *keys: str | ResultKey) -> dict[str, Any]:
        """The event of as many messages, one for each of these new objects."""
        rendered = [key if isinstance(key, str) else key.render() for key in keys]
        return sqs_event(*(s3_notification(self.bucket, key) for key in rendered))

    def upload(self, job: str = JOB, shards: int = 4, **fields: Any) -> str:
        """Push the data set, upload a job file; return its key."""
        key = JobFileKey(job).render()
        self.store.put(ManifestKey("digits").render(), manifest(shards).to_json())
        self.store.put(key, job_file(name=job, **fields))
        return key

    def plan(self, *jobs: str) -> None:
        self.call("plan", self.created(*(self.upload(job) for job in jobs)))

    def start(self, *jobs: str) -> None:
        """Plan and initialize: version 0 exists, epoch 1 is out and nothing else."""
        self.plan(*jobs)
        self.bodies()
        self.call("aggregate", self.created(*(self.initialized(job) for job in jobs)))

    def head(self, job: str = JOB) -> Head:
        return read_head(self.store, job)

    def put(self, job: str, of: WorkItem, outcome: Outcome, body: Tensors | None) -> ResultKey:
        key = ResultKey(job, of.epoch, of.subtask, new_id())
        store = cast("FakeStore", self.store)  # it asks for no more than a put
        return put_result(store, key, outcome, body, run=self.head(job).run)

    def initialized(self, job: str = JOB) -> ResultKey:
        return self.put(job, item(0, "initialize"), Initialized(roles=ROLES), tensors())

    def trained(self, job: str, shard: int, value: float = 1.0) -> ResultKey:
        body = self.store.get(self.head(job).objects["server"].key).body
        said = ModelMetadata.from_header(decode(body).metadata)
        base = Base(version=said.version, commit=said.commit, results_merged=said.results_merged)
        outcome = Trained(base=base, samples=SAMPLES, roles=ROLES)
        return self.put(job, train(1, shard), outcome, tensors(value))

    def bodies(self) -> list[str]:
        """Receive and delete every message of the subtasks queue."""
        found: list[str] = []
        while self.queue.depth():  # to receive from an empty queue is to wait
            for message in self.queue.receive(most=10, wait_seconds=0):
                found.append(message.body)
                self.queue.delete(message)
        return found

    def subtasks(self) -> list[tuple[str, int, str]]:
        """Receive and delete every message; return job, epoch and subtask of each, sorted."""
        said = [Subtask.from_json(body) for body in self.bodies()]
        return sorted((one.job, one.epoch, one.subtask) for one in said)

    def age(self, job: str, hours: float) -> None:
        """Let the job's head have been written so long ago."""
        head, by = self.head(job), timedelta(hours=hours)
        epochs = tuple(
            one.model_copy(update={"issued_at": one.issued_at - by}) for one in head.epochs
        )
        aged = {"epochs": epochs, "updated_at": head.updated_at - by}
        self.store.put(HeadKey(job).render(), head.model_copy(update=aged).to_json())


def forget_functions() -> None:
    """End the execution environment: the next call is a cold start, which remembers nothing."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "functions"]:
        del sys.modules[name]


def sqs_event(*bodies: str) -> dict[str, Any]:
    """An event of Lambda's with these messages, named message-0, message-1 and so on."""
    return {"Records": [_record(number, body) for number, body in enumerate(bodies)]}


def failed(*numbers: int) -> dict[str, list[dict[str, str]]]:
    """The answer by which these messages go back to their queue."""
    return {"batchItemFailures": [{"itemIdentifier": f"message-{number}"} for number in numbers]}


def _record(number: int, body: str) -> dict[str, Any]:
    return {
        "messageId": f"message-{number}",
        "receiptHandle": f"receipt-{number}",
        "body": body,
        "attributes": {"ApproximateReceiveCount": "1"},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:queue",
        "awsRegion": "us-east-1",
    }
