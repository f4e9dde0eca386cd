"""Receive -> is it still open? -> hand it to the handler -> receive, until idle or asked to leave.

Not one attempt (``handler``) and not the decision (``standing``). Invariant: a message whose
subtask nobody needs is deleted unworked; one that cannot be read is left to its queue.
"""

import logging
from collections.abc import Sequence
from typing import Final

from spotgrad.errors import LeaseLost, Malformed, NotFound, Retry, Unsupported
from spotgrad.ports import Message
from spotgrad.protocol.head import Head
from spotgrad.protocol.subtask import Subtask
from worker_image.assignment import Assignment, Options, Ports
from worker_image.exit_codes import BadHost
from worker_image.handler import Handler
from worker_image.inputs import Inputs
from worker_image.interruption import Stop
from worker_image.renewal import OtherCode
from worker_image.standing import why_not_mine, why_not_open
from worker_image.workshop import Workshop

__all__ = ["Worker"]

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 1.0
"""Long enough to be a long poll, short enough to leave the machine well within a Spot notice."""
TROUBLE_PAUSES_SECONDS: Final = (1, 2, 4, 8, 16, 30)
"""Waits after failures in a row; the failure after the last one ends the worker (exit 75)."""


class Worker:
    """Works off one queue until it is idle or asked to stop."""

    def __init__(
        self, ports: Ports, inputs: Inputs, workshop: Workshop, stop: Stop, options: Options
    ) -> None:
        self._ports = ports
        self._inputs = inputs
        self._stop = stop
        self._options = options
        self._held = options.held
        self._code: str | None = None
        self._has_run = False
        self._handler = Handler(ports, inputs, workshop, stop, options)
        self._troubles = 0

    def run(self) -> None:
        """Work until nothing came for ``until_idle_seconds``, or until asked to stop.

        Raises:
            Retry: store or queue failed many times in a row.
            Reject: a person has to act (no access, no such queue or bucket).
            OtherCode: a message needs another process; it is held under a fresh lease.
        """
        busy_at = self._ports.clock.monotonic()
        patience = self._options.until_idle_seconds
        while not self._stop.leaving:
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
        for message in self._take():
            try:
                self._handle(message, self._ports.clock.monotonic())
            except (Malformed, NotFound, Unsupported) as error:
                # Not ours to delete: its queue moves it to the dead-letter queue.
                log.error("poison message %s left alone: %s", message.message_id, error)  # noqa: TRY400 - it is foreseen; one line says it
            return True
        return False

    def _take(self) -> Sequence[Message]:
        """Return the message that was handed on, if its lease holds, or receive one."""
        held, self._held = self._held, None
        if held is None:
            return self._ports.queue.receive(most=1, wait_seconds=POLL_SECONDS)
        try:
            self._ports.queue.extend(held, lease_seconds=self._options.lease_seconds)
        except LeaseLost as error:
            log.warning("lease lost on the way: %s", error)
            return []
        return [held]

    def _handle(self, message: Message, received_at: float) -> None:
        subtask = Subtask.from_json(message.body)
        head = self._head(subtask.job)
        reason = "its job does not exist" if head is None else why_not_open(head, subtask)
        if head is not None and reason is None:
            reason = self._why_not_mine(head, subtask, message)
        if head is None or reason is not None:
            log.info("dropped %s %s: %s", subtask.job, subtask.subtask, reason)
            self._handler.delete(message)
            return
        if self._needs_other_code(head):
            self._hand_on(message)
            return
        attempt = self._ports.new_id()
        self._handler.attempt(Assignment(message, received_at, subtask, head, attempt))

    def _why_not_mine(self, head: Head, subtask: Subtask, message: Message) -> str | None:
        """Return why others have to do it; ``reconcile`` sends a check again for them.

        Raises:
            BadHost: nothing of this worker is taken any more; the message is back already.
        """
        worker = self._options.worker
        if worker in head.quarantined:
            self._handler.give_back(message)
            raise BadHost(f"job {head.job}: {worker} is quarantined: its results were outvoted")
        return why_not_mine(head, subtask, worker)

    def _needs_other_code(self, head: Head) -> bool:
        """Return whether this process has run another bundle than the job's: one is for life."""
        try:
            code = self._inputs.plan(head).code
        except (Malformed, NotFound):
            return False  # the attempt will tell
        sha256 = None if code is None else code.sha256
        if not self._has_run:
            self._code, self._has_run = sha256, True
        return sha256 != self._code

    def _hand_on(self, message: Message) -> None:
        """Leave the message to the process that is to take this one's place, or to anybody.

        Raises:
            OtherCode: unless this worker has to leave, or has lost the lease.
        """
        leaving = self._stop.leaving
        try:
            seconds = 0 if leaving else self._options.lease_seconds
            self._ports.queue.extend(message, lease_seconds=seconds)
        except LeaseLost as error:
            log.info("message %s not handed on: %s", message.message_id, error)
            return
        if not leaving:
            log.info("message %s needs other code: beginning anew", message.message_id)
            raise OtherCode(message)

    def _head(self, job: str) -> Head | None:
        try:
            return self._inputs.head(job)
        except NotFound:
            return None
