"""Receive -> is it still open? -> work under a lease -> upload one object -> acknowledge.

Not the work (``workshop``) and not the decision (``standing``). Invariants: nothing is published
or acknowledged once the lease is in doubt; a message is deleted only when nobody needs it or its
one result is stored; a worker that stops gives its message back at once.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spotgrad.errors import (
    AccessDenied,
    LeaseLost,
    Malformed,
    NotFound,
    Retry,
    Skip,
    Unsupported,
)
from spotgrad.ports import Clock, Message, NewId, ObjectStore, TaskQueue
from spotgrad.protocol.attempt import AttemptOutcome
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import ResultKey
from spotgrad.protocol.result import Outcome, ResultMetadata
from spotgrad.protocol.subtask import Subtask
from spotgrad.protocol.tensors import encode
from worker_image.attempts import AttemptRecord
from worker_image.failure import failed
from worker_image.inputs import Inputs
from worker_image.interruption import Stop
from worker_image.lease import Lease
from worker_image.standing import why_not_open
from worker_image.state import Arrays
from worker_image.watch import Watch
from worker_image.workshop import Workshop, base_of

__all__ = ["Options", "Ports", "StopRequested", "Worker"]

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 1.0
"""Long enough to be a long poll, short enough to leave the machine well within a Spot notice."""
TROUBLE_PAUSES_SECONDS: Final = (1, 2, 4, 8, 16, 30)
"""Waits after failures in a row; the failure after the last one ends the worker (exit 75)."""
UPLOAD_PAUSES_SECONDS: Final = (1, 2, 4, 8)
"""A finished result is worth a few more tries than the client's own."""


class StopRequested(Skip):
    """The worker was asked to stop: abort, and give the message back."""


@dataclass(frozen=True)
class Ports:
    """What the loop needs from the world."""

    store: ObjectStore
    queue: TaskQueue
    clock: Clock
    new_id: NewId


@dataclass(frozen=True)
class Options:
    """How this worker behaves; ``until_idle_seconds`` of nothing means for ever."""

    worker: str
    lease_seconds: int
    until_idle_seconds: float | None = None
    slow_seconds: float = 0.0
    """Waited in every training subtask after its attempt record is written: for fault tests."""


@dataclass(frozen=True)
class _Assignment:
    """One open subtask, under one message."""

    message: Message
    received_at: float
    subtask: Subtask
    head: Head
    attempt: str

    @property
    def where(self) -> str:
        """Return the keys that every log line carries."""
        it = self.subtask
        return f"job={it.job} epoch={it.epoch} subtask={it.subtask} attempt={self.attempt}"


class Worker:
    """Works off one queue until it is idle or asked to stop."""

    def __init__(
        self, ports: Ports, inputs: Inputs, workshop: Workshop, stop: Stop, options: Options
    ) -> None:
        self._ports = ports
        self._inputs = inputs
        self._workshop = workshop
        self._stop = stop
        self._options = options
        self._troubles = 0

    def run(self) -> None:
        """Work until nothing came for ``until_idle_seconds``, or until asked to stop.

        Raises:
            Retry: store or queue failed many times in a row.
            Reject: a person has to act (no access, no such queue or bucket).
        """
        busy_at = self._ports.clock.monotonic()
        patience = self._options.until_idle_seconds
        while not self._stop.requested:
            busy = self._patient_turn()
            now = self._ports.clock.monotonic()
            if busy:
                busy_at = now
            elif patience is not None and now - busy_at >= patience:
                log.info("idle for %.0f s: done", now - busy_at)
                return

    def _patient_turn(self) -> bool:
        """Do one turn; after trouble wait instead, longer each time, and give up in the end."""
        try:
            busy = self._turn()
        except Retry as error:
            if self._troubles == len(TROUBLE_PAUSES_SECONDS):
                raise
            log.warning("retry: %s", error)
            self._stop.wait(TROUBLE_PAUSES_SECONDS[self._troubles])
            self._troubles += 1
            return True
        self._troubles = 0
        return busy

    def _turn(self) -> bool:
        """Receive one message and deal with it; return whether there was one."""
        for message in self._ports.queue.receive(most=1, wait_seconds=POLL_SECONDS):
            try:
                self._handle(message, self._ports.clock.monotonic())
            except (Malformed, NotFound, Unsupported) as error:
                # Not ours to delete: its queue moves it to the dead-letter queue.
                log.error("poison message %s left alone: %s", message.message_id, error)  # noqa: TRY400 - it is foreseen; one line says it
            return True
        return False

    def _handle(self, message: Message, received_at: float) -> None:
        subtask = Subtask.from_json(message.body)
        head = self._head(subtask.job)
        reason = "its job does not exist" if head is None else why_not_open(head, subtask)
        if head is None or reason is not None:
            log.info("dropped %s %s: %s", subtask.job, subtask.subtask, reason)
            self._delete(message)
            return
        self._attempt(_Assignment(message, received_at, subtask, head, self._ports.new_id()))

    def _head(self, job: str) -> Head | None:
        try:
            return self._inputs.head(job)
        except NotFound:
            return None

    def _attempt(self, it: _Assignment) -> None:
        """Try once, under a lease; the attempt record says how it ended, whatever happens."""
        record = AttemptRecord(
            self._ports.store,
            self._ports.clock,
            it.subtask,
            attempt=it.attempt,
            worker=self._options.worker,
            base=base_of(it.head, it.subtask),
        )
        record.beat()
        log.info("-> started %s", it.where)
        ended: AttemptOutcome = "returned"
        try:
            with self._lease(it, record.beat) as lease:
                ended = self._work(it, lease)
            log.info("<- %s %s", ended, it.where)
        except LeaseLost as error:
            ended = "lease-lost"
            log.warning("<- lease lost %s: %s", it.where, error)
        except StopRequested:
            log.info("<- returned %s", it.where)
            self._give_back(it.message)
        except Retry:
            log.warning("<- retry %s", it.where)  # the message comes back when its lease is over
            raise
        except BaseException:
            self._give_back(it.message)
            raise
        finally:
            record.end(ended)

    def _work(self, it: _Assignment, lease: Lease) -> AttemptOutcome:
        if it.subtask.subtask.startswith("train") and self._options.slow_seconds:
            self._stop.wait(self._options.slow_seconds)

        def check() -> None:
            if self._stop.requested:
                raise StopRequested("asked to stop")
            lease.check()

        outcome, body = self._result(it, Watch(check))
        self._upload(it, body, lease)
        self._delete(it.message)
        return outcome

    def _result(self, it: _Assignment, watch: Watch) -> tuple[AttemptOutcome, bytes]:
        """Return the finished file: a product or, whatever the user's code raised, a failure."""
        try:
            watch.check()
            product = self._workshop.produce(it.head, it.subtask, watch)
            watch.check()
            return "uploaded", self._file(it, product.outcome, product.tensors)
        except (Retry, Skip, AccessDenied):
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the one edge where user code ends
            report = failed(error, watch.batch_idx)
            log.warning("failed %s: %s", it.where, report.error)
            return "failed", self._file(it, report, {})

    def _file(self, it: _Assignment, outcome: Outcome, tensors: Arrays) -> bytes:
        metadata = ResultMetadata(
            job=it.subtask.job,
            run=it.subtask.run,
            epoch=it.subtask.epoch,
            subtask=it.subtask.subtask,
            attempt=it.attempt,
            worker=self._options.worker,
            outcome=outcome,
        )
        return encode(tensors, metadata.to_header())

    def _upload(self, it: _Assignment, body: bytes, lease: Lease) -> None:
        key = ResultKey(it.subtask.job, it.subtask.epoch, it.subtask.subtask, it.attempt).render()
        for pause in UPLOAD_PAUSES_SECONDS:
            lease.check_held()
            try:
                self._ports.store.put(key, body)
            except Retry as error:
                log.warning("retry upload %s: %s", it.where, error)
            else:
                return
            if self._stop.wait(pause):
                raise StopRequested("asked to stop")
        lease.check_held()
        self._ports.store.put(key, body)

    def _lease(self, it: _Assignment, on_beat: Callable[[], None]) -> Lease:
        return Lease(
            self._ports.queue,
            it.message,
            self._ports.clock,
            lease_seconds=self._options.lease_seconds,
            received_at=it.received_at,
            on_beat=on_beat,
        )

    def _delete(self, message: Message) -> None:
        """Acknowledge; a message that stays comes back once more and is dropped then."""
        try:
            self._ports.queue.delete(message)
        except (LeaseLost, Retry) as error:
            log.warning("message %s not deleted: %s", message.message_id, error)

    def _give_back(self, message: Message) -> None:
        try:
            self._ports.queue.extend(message, lease_seconds=0)
        except (LeaseLost, Retry) as error:
            log.warning("message %s not given back: %s", message.message_id, error)
