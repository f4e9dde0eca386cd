"""One attempt at one open subtask: work under a lease -> upload one object -> acknowledge.

Not the work (``workshop``). Invariants: nothing is published or acknowledged once the lease is in
doubt; the message is deleted only when nobody needs it or its one result is stored; a worker that
has to leave saves what was done, if anything was, and gives the message back at once.
"""

import logging
from typing import Final

from spotgrad.errors import (
    AccessDenied,
    LeaseLost,
    Malformed,
    NotFound,
    NotOpen,
    Retry,
    Skip,
)
from spotgrad.ports import Message
from spotgrad.protocol.attempt import AttemptOutcome
from spotgrad.protocol.keys import PartialKey, ResultKey
from spotgrad.protocol.partial import PartialMetadata, write_partial
from spotgrad.protocol.result import Outcome, ResultMetadata
from spotgrad.protocol.tensors import checksum, encode
from spotgrad.settings import MissingSetting
from worker_image.assignment import Assignment, Options, Ports
from worker_image.attempts import AttemptRecord, Author
from worker_image.cache import is_disk_full
from worker_image.departure import Departure, StopRequested
from worker_image.exit_codes import BadDisk, BadHost
from worker_image.failure import failed
from worker_image.inputs import Inputs
from worker_image.interruption import Stop
from worker_image.lease import BEATS_PER_LEASE, Lease
from worker_image.rounds import Rounds
from worker_image.snapshot import Snapshot
from worker_image.standing import why_not_open
from worker_image.state import Arrays
from worker_image.watch import Watch
from worker_image.workshop import Workshop, base_of

__all__ = ["Handler"]

log = logging.getLogger(__name__)

UPLOAD_PAUSES_SECONDS: Final = (1, 2, 4, 8)
"""A finished result is worth a few more tries than the client's own."""


class Handler:
    """Tries assignments, one after the other."""

    def __init__(
        self, ports: Ports, inputs: Inputs, workshop: Workshop, stop: Stop, options: Options
    ) -> None:
        self._ports = ports
        self._inputs = inputs
        self._workshop = workshop
        self._stop = stop
        self._options = options
        self._departure = Departure(stop, ports.clock, notice_seconds=options.notice_seconds)

    def attempt(self, it: Assignment) -> None:
        """Try once, under a lease; the attempt record says how it ended, whatever happens.

        Raises:
            Retry: store or queue failed; the message comes back when its lease is over.
            BadHost, AccessDenied: this worker cannot go on; the message is back already.
        """
        record = self._record(it)
        record.beat()
        log.info("-> started %s", it.where)
        ended: AttemptOutcome = "returned"
        try:
            ended = self._under_lease(it, record)
            log.info("<- %s %s", ended, it.where)
        except LeaseLost as error:
            ended = "lease-lost"
            log.warning("<- lease lost %s: %s", it.where, error)
        except NotOpen as error:
            ended = "dropped"
            log.info("<- dropped %s: %s", it.where, error)
            self.delete(it.message)
        except StopRequested as error:
            log.info("<- returned %s: %s", it.where, error)
            self.give_back(it.message)
        except Retry:
            log.warning("<- retry %s", it.where)  # the message comes back when its lease is over
            raise
        except BaseException:
            self.give_back(it.message)
            raise
        finally:
            record.end(ended)

    def delete(self, message: Message) -> None:
        """Acknowledge; a message that stays comes back once more and is dropped then."""
        try:
            self._ports.queue.delete(message)
        except (LeaseLost, Retry) as error:
            log.warning("message %s not deleted: %s", message.message_id, error)

    def _under_lease(self, it: Assignment, record: AttemptRecord) -> AttemptOutcome:
        seconds = self._options.lease_seconds

        def visit() -> None:
            record.beat()
            self._check_wanted(it)

        rounds = Rounds(
            visit, self._ports.clock, seconds=seconds / BEATS_PER_LEASE, name="attempt record"
        )
        lease = Lease(
            self._ports.queue,
            it.message,
            self._ports.clock,
            lease_seconds=seconds,
            received_at=it.received_at,
        )
        with lease, rounds:
            return self._work(it, record, lease, rounds)

    def _work(
        self, it: Assignment, record: AttemptRecord, lease: Lease, rounds: Rounds
    ) -> AttemptOutcome:
        def check() -> None:
            lease.check()
            rounds.check()
            self._departure.check(watch)

        began_at = self._ports.clock.monotonic()
        watch = Watch(check, lambda: self._ports.clock.monotonic() - began_at)
        self._departure.begin()
        try:
            self._dawdle(it, watch)
            outcome, body = self._result(it, record, watch)
            self._upload(it, body, lease)
        except StopRequested:
            self._save(it, watch, lease)
            raise
        self.delete(it.message)
        return outcome

    def _check_wanted(self, it: Assignment) -> None:
        """Return while the head still wants this subtask; raises ``NotOpen`` when it does not."""
        try:
            reason = why_not_open(self._inputs.head(it.subtask.job), it.subtask)
        except NotFound:
            reason = "its job does not exist any more"
        except Malformed as error:  # not the subtask's fault: whoever commits next will notice
            log.warning("head of %s cannot be read: %s", it.subtask.job, error)
            return
        if reason is not None:
            raise NotOpen(reason)

    def _dawdle(self, it: Assignment, watch: Watch) -> None:
        left = self._options.slow_seconds if it.subtask.subtask.startswith("train") else 0.0
        while left > 0:
            pause = min(left, self._options.lease_seconds / BEATS_PER_LEASE)
            self._stop.wait(pause)
            watch.check()
            left -= pause

    def _result(
        self, it: Assignment, record: AttemptRecord, watch: Watch
    ) -> tuple[AttemptOutcome, bytes]:
        """Return the finished file: a product or, whatever the user's code raised, a failure."""
        try:
            watch.check()
            product = self._workshop.produce(it.head, it.subtask, watch, record.rebase)
            watch.check()
            return "uploaded", self._file(it, product.outcome, product.tensors)
        except (Retry, Skip, AccessDenied, BadHost, MissingSetting):
            raise
        except (Exception, SystemExit) as error:
            if is_disk_full(error):
                raise BadDisk(f"{it.where}: {error}: use another machine") from error
            report = failed(error, watch)
            log.warning("failed %s: %s", it.where, report.error)
            return "failed", self._file(it, report, {})

    def _file(self, it: Assignment, outcome: Outcome, tensors: Arrays) -> bytes:
        metadata = ResultMetadata(
            job=it.subtask.job,
            run=it.subtask.run,
            epoch=it.subtask.epoch,
            subtask=it.subtask.subtask,
            attempt=it.attempt,
            worker=self._options.worker,
            data_crc32=checksum(tensors),
            outcome=outcome,
        )
        return encode(tensors, metadata.to_header())

    def _upload(self, it: Assignment, body: bytes, lease: Lease) -> None:
        key = ResultKey(*it.path).render()
        for pause in UPLOAD_PAUSES_SECONDS:
            lease.check_held()
            try:
                self._put(key, body)
            except Retry as error:
                log.warning("retry upload %s: %s", it.where, error)
            else:
                return
            if self._stop.wait(pause):
                raise StopRequested("asked to stop while the upload failed")
        lease.check_held()
        self._put(key, body)

    def _put(self, key: str, body: bytes) -> None:
        began_at = self._ports.clock.monotonic()
        self._ports.store.put(key, body)
        self._departure.uploaded(self._ports.clock.monotonic() - began_at)

    def _save(self, it: Assignment, watch: Watch, lease: Lease) -> None:
        """Leave a partial for the next attempt; without one it begins anew, and that is all."""
        if watch.snapshot is None or not watch.worked:
            return
        try:
            lease.check_held()
            key = PartialKey(*it.path).render()
            self._ports.store.put(key, self._partial(it, watch.snapshot()))
        except Exception as error:  # noqa: BLE001 - user code is asked for its state; nothing is lost
            log.warning("no partial %s: %r", it.where, error)
        else:
            log.info("saved %s", key)

    def _partial(self, it: Assignment, taken: Snapshot) -> bytes:
        code = self._inputs.plan(it.head).code
        metadata = PartialMetadata(
            job=it.subtask.job,
            run=it.subtask.run,
            epoch=it.subtask.epoch,
            subtask=it.subtask.subtask,
            attempt=it.attempt,
            worker=self._options.worker,
            base=taken.base,
            code_sha256=None if code is None else code.sha256,
            position=taken.position,
            state=taken.state,
        )
        return write_partial(metadata, taken.tensors)

    def _record(self, it: Assignment) -> AttemptRecord:
        return AttemptRecord(
            self._ports.store,
            self._ports.clock,
            it.subtask,
            attempt=it.attempt,
            author=Author(self._options.worker, self._options.lease_seconds),
            base=base_of(it.head, it.subtask),
        )

    def give_back(self, message: Message) -> None:
        """Let others receive it at once."""
        try:
            self._ports.queue.extend(message, lease_seconds=0)
        except (LeaseLost, Retry) as error:
            log.warning("message %s not given back: %s", message.message_id, error)
