"""Faults ``duplicate``, ``delay`` and ``reorder`` on what reaches a function: a ``Delivery``.

A message that is held back is simply not taken: it is made visible again a little later, so that
others overtake it. A late copy is a message of its own. Both cost what they would cost on AWS.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from infra.local.chaos.dice import Dice, Tally
from infra.local.chaos.sends import DELAY, DUPLICATE, LATE_SECONDS, REORDER
from infra.local.chaos.spec import ChaosSpec
from infra.local.delivery import Delivery
from infra.local.records import Record

if TYPE_CHECKING:  # the stubs are a development tool
    from mypy_boto3_sqs import SQSClient

HELD_BACK: Final = 0.2
"""The part of messages that ``reorder`` holds back, each once and for a second."""

Batches = list[Sequence[Record]]


class Later:
    """The queues, for what is to come back later."""

    def __init__(self, sqs: "SQSClient", urls: Mapping[str, str]) -> None:
        self._sqs = sqs
        self._urls = urls

    def hold_back(self, record: Record, seconds: int) -> None:
        """Let the message be received again in ``seconds``."""
        self._sqs.change_message_visibility(
            QueueUrl=self._urls[record["eventSourceARN"]],
            ReceiptHandle=record["receiptHandle"],
            VisibilityTimeout=seconds,
        )

    def send_again(self, record: Record, seconds: int) -> str:
        """Send a copy that can be received in ``seconds``; return its message id."""
        answer = self._sqs.send_message(
            QueueUrl=self._urls[record["eventSourceARN"]],
            MessageBody=record["body"],
            DelaySeconds=seconds,
        )
        return answer["MessageId"]


class Deliveries:
    """Disturbs every batch, then hands it to the delivery that was there before."""

    def __init__(
        self, spec: ChaosSpec, dice: Dice, tally: Tally, later: Later, inner: Delivery
    ) -> None:
        self._spec = spec
        self._dice = dice
        self._tally = tally
        self._later = later
        self._inner = inner
        self._lock = threading.Lock()
        self._timed: set[str] = set()
        self._copied: set[str] = set()

    def __call__(self, batch: Sequence[Record]) -> Sequence[Sequence[Record]]:
        """Return the batches to hand over now."""
        now = self._without_late(batch)
        again = self._copies(now)
        pieces = self._pieces(now)
        found: Batches = [done for piece in pieces for done in self._inner(piece)]
        return [*found, again] if again else found

    def _without_late(self, batch: Sequence[Record]) -> list[Record]:
        now = []
        for record in batch:
            new = self._is_new(record, self._timed)
            seconds = self._held_seconds() if new else 0
            if seconds:
                self._later.hold_back(record, seconds)
            else:
                now.append(record)
        return now

    def _held_seconds(self) -> int:
        late = 0
        if self._dice.hit(float(self._spec.delay > 0)):
            late = self._dice.whole(0, int(self._spec.delay))
            self._tally.add(DELAY, int(late > 0))
        if not late and self._dice.hit(HELD_BACK * self._spec.reorder):
            late = 1
            self._tally.add(REORDER)
        return late

    def _is_new(self, record: Record, known: set[str]) -> bool:
        """Return whether the message was not known yet: each is disturbed once in each way."""
        with self._lock:
            new = record["messageId"] not in known
            known.add(record["messageId"])
            return new

    def _copies(self, batch: Sequence[Record]) -> list[Record]:
        """Return the second copies to hand over at once; the others are sent for later."""
        fresh = [record for record in batch if self._is_new(record, self._copied)]
        twice = [record for record in fresh if self._dice.hit(self._spec.duplicate)]
        self._tally.add(DUPLICATE, len(twice))
        at_once = []
        for record in twice:
            if self._dice.pick((True, False)):
                at_once.append(record)
            else:
                copy_id = self._later.send_again(record, self._dice.whole(0, LATE_SECONDS))
                with self._lock:
                    self._copied.add(copy_id)
        return at_once

    def _pieces(self, batch: list[Record]) -> Batches:
        """Return the batch in another order and in two pieces, if that is wanted."""
        if len(batch) < 2 or not self._dice.hit(float(self._spec.reorder)):
            return [batch] if batch else []
        shuffled = self._dice.shuffled(batch)
        if shuffled != batch:
            self._tally.add(REORDER)
        cut = self._dice.whole(1, len(shuffled))
        return [piece for piece in (shuffled[:cut], shuffled[cut:]) if piece]
