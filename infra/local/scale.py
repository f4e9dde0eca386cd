"""How many pollers of one event source are at work: more while batches come full, fewer when idle.

Lambda, too, adds pollers as long as there is a backlog and takes them away when there is none
(https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html). Aggregators that run side
by side without a backlog would only lose commits to each other.
"""

import threading


class Scale:
    """A number between 1 and ``most``, shared by the pollers of one event source."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._allowed = 1
        self._lock = threading.Lock()

    def allows(self, number: int) -> bool:
        """Return whether poller ``number`` (from 0) is to poll now."""
        return number < self._allowed

    def observe(self, received: int, batch_size: int) -> None:
        """Take note of a batch: a full one is a backlog, an empty one is none."""
        with self._lock:
            if received >= batch_size:
                self._allowed = min(self._most, self._allowed + 1)
            elif received == 0:
                self._allowed = max(1, self._allowed - 1)
