"""One worker's try at one subtask, as the bucket sees it: begun, alive, ended.

Written for ``reconcile`` and for people; nothing that decides a merge reads it. Invariant: the end
is the last write, since its caller has stopped the heartbeat by then.
"""

import logging
import threading
from dataclasses import dataclass

from spotgrad.errors import Retry
from spotgrad.ports import Clock, ObjectStore
from spotgrad.protocol.attempt import Attempt, AttemptOutcome
from spotgrad.protocol.keys import AttemptKey
from spotgrad.protocol.result import Base
from spotgrad.protocol.subtask import Subtask

__all__ = ["AttemptRecord", "Author"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Author:
    """Who makes attempts: a worker, and how long it may be silent without losing its message."""

    worker: str
    lease_seconds: int


class AttemptRecord:
    """``attempts/<job>/<epoch>/<subtask>/<attempt>.json`` of one attempt."""

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        subtask: Subtask,
        *,
        attempt: str,
        author: Author,
        base: Base | None,
    ) -> None:
        now = clock.now()
        self.document = Attempt(
            job=subtask.job,
            run=subtask.run,
            epoch=subtask.epoch,
            subtask=subtask.subtask,
            attempt=attempt,
            worker=author.worker,
            lease_seconds=author.lease_seconds,
            base=base,
            started_at=now,
            beat_at=now,
        )
        self._key = AttemptKey(subtask.job, subtask.epoch, subtask.subtask, attempt).render()
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()

    def beat(self) -> None:
        """Write that the attempt is alive; the first beat is its beginning."""
        self._write(None)

    def rebase(self, base: Base | None) -> None:
        """Write that the attempt goes on from another version than the head's latest."""
        self._write(None, base=base)

    def end(self, outcome: AttemptOutcome) -> None:
        """Write how it ended; a store that cannot take it is logged, since the work is done."""
        try:
            self._write(outcome)
        except Retry as error:
            log.warning("attempt %s ended %s, not recorded: %s", self._key, outcome, error)

    def _write(self, outcome: AttemptOutcome | None, **changes: Base | None) -> None:
        with self._lock:  # the heartbeat's thread and the worker's own both write
            changed = {"beat_at": self._clock.now(), "outcome": outcome, **changes}
            self.document = self.document.model_copy(update=changed)
            self._store.put(self._key, self.document.to_json())
