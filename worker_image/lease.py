"""The hold on one message: extended by a heartbeat thread, given up the moment it is in doubt.

Not the attempt record (``rounds``), so that a slow bucket cannot cost the message. Invariant: while
``problem`` is nothing and the monotonic clock is before ``ends_at``, nobody else was given the
message, so only then may its holder publish.
"""

from typing import Final

from spotgrad.errors import LeaseLost, Reject
from spotgrad.ports import Clock, Message, TaskQueue
from worker_image.rounds import Rounds

__all__ = ["BEATS_PER_LEASE", "HeldTooLong", "Lease"]

MOST_SECONDS: Final = 43_200
"""SQS ends every lease 12 h after the receive, however often it is extended:
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html
"""
BEATS_PER_LEASE: Final = 3
"""A failed beat is tried again sooner (``rounds``): about eight tries before the lease is over."""


class HeldTooLong(Reject):
    """The subtask needs longer than SQS lets anyone hold a message: it has to be smaller."""


class Lease(Rounds):
    """One message under lease since ``received_at`` (seconds of ``clock.monotonic``)."""

    def __init__(
        self,
        queue: TaskQueue,
        message: Message,
        clock: Clock,
        *,
        lease_seconds: int,
        received_at: float,
    ) -> None:
        beat_seconds = lease_seconds / BEATS_PER_LEASE
        super().__init__(self._extend, clock, seconds=beat_seconds, name="heartbeat")
        self.next_at = received_at + beat_seconds
        self.ends_at = received_at + lease_seconds
        self._queue = queue
        self._message = message
        self._lease_seconds = lease_seconds
        self._received_at = received_at

    def check(self) -> None:
        """Return while the message is surely ours.

        Raises:
            LeaseLost: it is, or may be, somebody else's: publish nothing, delete nothing.
            HeldTooLong: SQS is about to take it away for good.
        """
        super().check()
        self.check_held()

    def check_held(self) -> None:
        """Return while the message is ours, even if it cannot be kept for long.

        Raises:
            LeaseLost: as ``check``.
        """
        if isinstance(self.problem, LeaseLost):
            raise self.problem
        if self._clock.monotonic() >= self.ends_at:
            raise LeaseLost(f"no heartbeat arrived within the lease of {self._lease_seconds} s")

    def _extend(self) -> None:
        now = self._clock.monotonic()  # before the call: the new lease surely lasts from here
        if now >= self.ends_at:
            # The queue may have given it away: extending now could take it from its new holder.
            raise LeaseLost(f"no heartbeat within the lease of {self._lease_seconds} s")
        if now + self._lease_seconds > self._received_at + MOST_SECONDS:
            raise HeldTooLong(
                f"held for {now - self._received_at:,.0f} s: SQS ends every lease after "
                f"{MOST_SECONDS:,} s; make the shards smaller or take fewer passes"
            )
        self._queue.extend(self._message, lease_seconds=self._lease_seconds)
        self.ends_at = now + self._lease_seconds
