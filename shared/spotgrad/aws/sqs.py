"""The ports ``TaskQueue`` and ``TaskGauge`` on one standard SQS queue.

At least once, in any order. Whether a lease is lost is SQS's word, and it is lenient: a late
``delete`` may succeed without an error. Correctness never rests on it (the head is the truth).

The limits below are documented at
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/ on the page that each names.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from spotgrad.aws.translate import translated
from spotgrad.errors import Malformed, StoreUnavailable, Unsupported
from spotgrad.ports import Message

if TYPE_CHECKING:  # the stubs are a development dependency
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType
    from mypy_boto3_sqs.type_defs import BatchResultErrorEntryTypeDef, MessageTypeDef

__all__ = ["SqsQueue"]

# API_SendMessageBatch.html: at most 10 entries, and 1 MiB for all of them together.
MOST_PER_BATCH = 10
MOST_BYTES = 1_048_576
# API_SendMessage.html lists what a body may hold: tab, newline, return, and from the space on all
# of Unicode but the surrogates, U+FFFE and U+FFFF.
REFUSED_CHARACTER = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# API_ReceiveMessage.html: WaitTimeSeconds is a whole number of at most 20.
MOST_WAIT_SECONDS = 20
# API_ChangeMessageVisibility.html: 0 to 43,200 s, and never beyond 12 h after the receive.
MOST_LEASE_SECONDS = 43_200
# Entries that SQS could not take are offered again, as a throttled request is by the client.
SEND_ROUNDS = 3
# API_GetQueueAttributes.html: waiting, leased and delayed; each is approximate.
DEPTH_ATTRIBUTES: "tuple[QueueAttributeNameType, ...]" = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


class SqsQueue:
    """One queue. ``client`` comes from ``spotgrad.aws.clients``."""

    def __init__(self, client: "SQSClient", queue_url: str) -> None:
        self._client = client
        self._queue_url = queue_url

    def send(self, bodies: Sequence[str]) -> None:
        """Send every body, each at least once; any order.

        Raises:
            Malformed: a body that SQS cannot carry (too large, empty, a control character);
                nothing has been sent then.
            StoreUnavailable: some were not taken, also when offered again; others may be sent.
        """
        for body in bodies:
            _check_body(body, self._queue_url)
        for batch in _batches(bodies):
            self._send_batch(batch)

    def receive(self, *, most: int, wait_seconds: float) -> Sequence[Message]:
        """Lease up to ``most`` (1 to 10) messages, waiting up to ``wait_seconds`` for the first.

        SQS counts whole seconds: less than one second is rounded up, since only a wait makes SQS
        ask all of its servers; the rest is rounded down, and cut at 20 s.
        """
        whole_seconds = math.floor(wait_seconds) if wait_seconds >= 1 else math.ceil(wait_seconds)
        with translated(f"receive from {self._queue_url}"):
            answer = self._client.receive_message(
                QueueUrl=self._queue_url,
                MaxNumberOfMessages=most,
                WaitTimeSeconds=min(whole_seconds, MOST_WAIT_SECONDS),
                MessageSystemAttributeNames=["ApproximateReceiveCount"],
            )
        return [_message(found) for found in answer.get("Messages", ())]

    def extend(self, message: Message, *, lease_seconds: int) -> None:
        """Let this lease end ``lease_seconds`` from now; 0 gives the message back at once.

        Raises:
            LeaseLost: the lease ran out, or the message is deleted.
            Unsupported: the lease would end more than 12 h after its receive.
        """
        if not 0 <= lease_seconds <= MOST_LEASE_SECONDS:
            raise Unsupported(
                f"lease of {lease_seconds} s on {self._queue_url}: SQS leases for 0 to "
                f"{MOST_LEASE_SECONDS} s (12 h); make the subtask smaller"
            )
        with translated(f"extend the lease of message {message.message_id}"):
            self._client.change_message_visibility(
                QueueUrl=self._queue_url,
                ReceiptHandle=message.receipt,
                VisibilityTimeout=lease_seconds,
            )

    def delete(self, message: Message) -> None:
        """Acknowledge: the message is not delivered again.

        Raises:
            LeaseLost: SQS says that the lease ran out (it does not always notice).
        """
        with translated(f"delete message {message.message_id}"):
            self._client.delete_message(QueueUrl=self._queue_url, ReceiptHandle=message.receipt)

    def depth(self) -> int:
        """Return the approximate number of messages that wait, are delayed or are leased."""
        with translated(f"measure {self._queue_url}"):
            answer = self._client.get_queue_attributes(
                QueueUrl=self._queue_url, AttributeNames=DEPTH_ATTRIBUTES
            )
        return sum(int(answer["Attributes"][name]) for name in DEPTH_ATTRIBUTES)

    def _send_batch(self, batch: Sequence[str]) -> None:
        waiting = {str(number): body for number, body in enumerate(batch)}
        for _ in range(SEND_ROUNDS):
            failed = self._offer(waiting)
            if not failed:
                return
            waiting = {entry["Id"]: waiting[entry["Id"]] for entry in failed}
        raise StoreUnavailable(
            f"send to {self._queue_url}: {len(waiting)} of {len(batch)} messages not taken, "
            f"the first with {failed[0]['Code']}"
        )

    def _offer(self, waiting: Mapping[str, str]) -> Sequence["BatchResultErrorEntryTypeDef"]:
        with translated(f"send to {self._queue_url}"):
            answer = self._client.send_message_batch(
                QueueUrl=self._queue_url,
                Entries=[{"Id": name, "MessageBody": body} for name, body in waiting.items()],
            )
        failed = answer.get("Failed", [])
        for entry in failed:
            if entry["SenderFault"]:  # it would be refused for ever
                text = f"{entry['Code']}: {entry.get('Message', '')}"
                raise Malformed(f"send to {self._queue_url}: message refused with {text}")
        return failed


def _message(found: "MessageTypeDef") -> Message:
    return Message(
        message_id=found["MessageId"],
        body=found["Body"],
        receipt=found["ReceiptHandle"],
        receive_count=int(found["Attributes"]["ApproximateReceiveCount"]),
    )


def _check_body(body: str, queue_url: str) -> None:
    where = f"message to {queue_url}"
    if not body:
        raise Malformed(f"{where} is empty: SQS carries 1 to {MOST_BYTES} bytes")
    if found := REFUSED_CHARACTER.search(body):
        raise Malformed(f"{where} holds {found[0]!r} at {found.start()}: SQS refuses it")
    if (size_bytes := len(body.encode())) > MOST_BYTES:
        raise Malformed(f"{where} has {size_bytes} bytes: SQS carries at most {MOST_BYTES}")


def _batches(bodies: Sequence[str]) -> Iterator[Sequence[str]]:
    batch: list[str] = []
    batch_bytes = 0
    for body in bodies:
        size_bytes = len(body.encode())
        if batch and (len(batch) == MOST_PER_BATCH or batch_bytes + size_bytes > MOST_BYTES):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(body)
        batch_bytes += size_bytes
    if batch:
        yield batch
