"""Attempt records as ``reconcile`` reads them: each state of a record once, while it stays warm.

A listing names every record's entity tag, so a record that has not been written since is not
fetched again: a minute costs what was written in that minute.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from spotgrad.errors import Malformed, NotFound
from spotgrad.ports import ObjectInfo, ObjectReader
from spotgrad.protocol.attempt import Attempt
from spotgrad.protocol.head import Head

MOST_REMEMBERED: Final = 20_000
"""About 30 MB; then it starts afresh."""


class AttemptReader:
    """Reads attempt records, and remembers them by key and entity tag.

    Attributes:
        fetched: how many were fetched so far.
    """

    def __init__(self, store: ObjectReader, most: int = MOST_REMEMBERED) -> None:
        self._store = store
        self._most = most
        self.fetched = 0
        self._read: dict[str, tuple[str, Attempt | None]] = {}

    def read(self, info: ObjectInfo, head: Head) -> Attempt | None:
        """Return a record of the head's run; None when it is damaged, gone or another's."""
        etag, attempt = self._read.get(info.key, ("", None))
        if etag != info.etag:
            if len(self._read) >= self._most:
                self._read.clear()
            attempt = self._fetch(info.key)
            self._read[info.key] = info.etag, attempt
        return attempt if attempt is not None and attempt.run == head.run else None

    def _fetch(self, key: str) -> Attempt | None:
        self.fetched += 1
        with suppress(Malformed, NotFound):
            return Attempt.from_json(self._store.get(key).body)
        return None


def lasted(attempt: Attempt) -> timedelta:
    """Return how long it took up to its last beat; a clock that was set back counts as nothing."""
    return max(timedelta(0), attempt.beat_at - attempt.started_at)
