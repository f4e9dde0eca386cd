"""The hold on one message: extended by a heartbeat thread, given up the moment it is in doubt.

Not the attempt record (``rounds``), so that a slow bucket cannot cost the message. Invariant: while
``problem`` is nothing and the monotonic clock is before ``ends_at``, nobody else was given the
message, so only then may its holder publish. The thread waits on an event, never sleeps.
"""

import logging
import threading
from types import TracebackType
from typing import Final, Self

from spotgrad.errors import LeaseLost, Reject, Retry, SpotgradError
from spotgrad.ports import Clock, Message, TaskQueue

__all__ = ["BEATS_PER_LEASE", "HeldTooLong", "Lease"]

log = logging.getLogger(__name__)

MOST_SECONDS: Final = 43_200
"""SQS ends every lease 12 h after the receive, however often it is extended:
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html
"""
BEATS_PER_LEASE: Final = 3
RETRIES_PER_BEAT: Final = 4
"""After a failed beat the next one comes sooner: about eight tries before the lease is over."""


class HeldTooLong(Reject):
    """The subtask needs longer than SQS lets anyone hold a message: it has to be smaller."""


class Lease:
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
        self.problem: SpotgradError | None = None
        self.ends_at = received_at + lease_seconds
        self.next_beat_at = received_at + lease_seconds / BEATS_PER_LEASE
        self._queue = queue
        self._message = message
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._received_at = received_at
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        """Start the heartbeat."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the heartbeat; no beat happens after this."""
        self._over.set()
        self._thread.join()

    def check(self) -> None:
        """Return while the message is surely ours.

        Raises:
            LeaseLost: it is, or may be, somebody else's: publish nothing, delete nothing.
            HeldTooLong: SQS is about to take it away for good.
        """
        if self.problem is not None:
            raise self.problem
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

    def beat(self) -> None:
        """Extend the lease; a throttled beat is tried again, sooner."""
        began_at = self._clock.monotonic()
        beat_seconds = self._lease_seconds / BEATS_PER_LEASE
        try:
            self._extend(began_at)
        except Retry as error:
            log.warning("retry heartbeat: %s", error)
            beat_seconds /= RETRIES_PER_BEAT
        except SpotgradError as error:
            log.error("lost: %s", error)  # noqa: TRY400 - the holder raises it; one line is enough here
            self.problem = error
        self.next_beat_at = began_at + beat_seconds

    def _extend(self, now: float) -> None:
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

    def _keep(self) -> None:
        while self.problem is None:
            if self._over.wait(max(0.0, self.next_beat_at - self._clock.monotonic())):
                return
            self.beat()
