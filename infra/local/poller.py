"""One poller of a queue, as Lambda's event source mapping runs them: receive, invoke, delete.

Knows nothing of processes or templates. What the function does not acknowledge stays in the queue
until its visibility timeout ends; the queue's redrive policy decides how often it comes back.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from infra.local.counters import Counters, Counts
from infra.local.delivery import Delivery, once
from infra.local.function import FunctionTimedOut, InvocationFailed
from infra.local.records import Record, failed_ids, to_record
from infra.local.scale import Scale
from infra.local.topology import QueueSource

if TYPE_CHECKING:  # the stubs are a development tool
    from mypy_boto3_sqs import SQSClient

Invoke = Callable[[object], Any]
"""Runs a function on an event; raises ``InvocationFailed``."""

_MOST_PER_RECEIVE = 10  # SQS
_BACK_OFF_SECONDS = 0.5
_IDLE_SECONDS = 0.1


@dataclass(frozen=True)
class Subscription:
    """A function's subscription to a queue: everything that its pollers share."""

    function: str
    source: QueueSource
    queue_url: str
    queue_arn: str
    invoke: Invoke
    counters: Counters = field(default_factory=Counters)
    deliver: Delivery = once
    scale: Scale = field(default_factory=lambda: Scale(1))
    long_poll_seconds: int = 1  # also the longest that a stop has to wait for


class Poller:
    """Takes one batch at a time; as many run side by side as the source's maximum concurrency."""

    def __init__(
        self,
        subscription: Subscription,
        sqs: "SQSClient",
        stopping: threading.Event,
        *,
        number: int = 0,
    ) -> None:
        self._subscription = subscription
        self._sqs = sqs
        self._stopping = stopping
        self._number = number

    def run(self) -> None:
        """Poll until told to stop; a queue that cannot be reached is tried again."""
        while not self._stopping.is_set():
            if not self._subscription.scale.allows(self._number):
                self._stopping.wait(_IDLE_SECONDS)
                continue
            try:
                self.poll_once()
            except (BotoCoreError, ClientError):
                self._subscription.counters.add(self._subscription.function, Counts(errors=1))
                self._stopping.wait(_BACK_OFF_SECONDS)

    def poll_once(self) -> int:
        """Receive one batch and hand it over; return how many messages it held."""
        batch = self._gather()
        self._subscription.scale.observe(len(batch), self._subscription.source.batch_size)
        if not batch or self._stopping.is_set():
            return 0  # what was received comes back by its visibility timeout
        for delivery in self._subscription.deliver(batch):
            self._hand_over(delivery)
        return len(batch)

    def _gather(self) -> list[Record]:
        source = self._subscription.source
        batch = self._receive(source.batch_size, self._subscription.long_poll_seconds)
        ends_at = time.monotonic() + source.batching_window_seconds
        while batch and len(batch) < source.batch_size and not self._stopping.is_set():
            remaining = ends_at - time.monotonic()
            if remaining <= 0:
                break
            wait = min(math.ceil(remaining), self._subscription.long_poll_seconds)
            batch += self._receive(source.batch_size - len(batch), wait)
        return batch

    def _receive(self, most: int, wait_seconds: int) -> list[Record]:
        answer = self._sqs.receive_message(
            QueueUrl=self._subscription.queue_url,
            MaxNumberOfMessages=min(most, _MOST_PER_RECEIVE),
            WaitTimeSeconds=wait_seconds,
            MessageSystemAttributeNames=["All"],
        )
        arn = self._subscription.queue_arn
        return [to_record(message, queue_arn=arn) for message in answer.get("Messages", [])]

    def _hand_over(self, batch: Sequence[Record]) -> None:
        failed = self._failed(batch)
        done = [record for record in batch if record["messageId"] not in failed]
        self._delete(done)
        self._count(Counts(invocations=1, acknowledged=len(done), retried=len(batch) - len(done)))

    def _failed(self, batch: Sequence[Record]) -> set[str]:
        try:
            response = self._subscription.invoke({"Records": list(batch)})
        except FunctionTimedOut:
            self._count(Counts(timeouts=1))
        except InvocationFailed:
            self._count(Counts(errors=1))
        else:
            partial = self._subscription.source.report_batch_item_failures
            return failed_ids(response, batch, partial=partial)
        return {str(record["messageId"]) for record in batch}

    def _delete(self, records: Sequence[Record]) -> None:
        for some in _chunks(records, _MOST_PER_RECEIVE):
            self._sqs.delete_message_batch(
                QueueUrl=self._subscription.queue_url,
                Entries=[
                    {"Id": str(number), "ReceiptHandle": record["receiptHandle"]}
                    for number, record in enumerate(some)
                ],
            )

    def _count(self, counts: Counts) -> None:
        self._subscription.counters.add(self._subscription.function, counts)


def _chunks(records: Sequence[Record], size: int) -> Iterator[Sequence[Record]]:
    for start in range(0, len(records), size):
        yield records[start : start + size]
