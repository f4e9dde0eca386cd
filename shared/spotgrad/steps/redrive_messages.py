"""Redrive messages: dead letters go back to the queue that they came from.

SQS has tasks that do this; receive, send and delete work everywhere and in this order lose nothing.
Invariant: a message is deleted only after it was sent, so whoever dies in between leaves it in both
queues. That is harmless: messages are hints, and a function or worker drops what is done already.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from spotgrad.errors import LeaseLost
from spotgrad.ports import DeadLetters, TaskSender

__all__ = ["Moved", "redrive_messages"]

MOST_AT_ONCE: Final = 10  # what one receive leases at most
WAIT_SECONDS: Final = 1.0
"""Only a receive that waits asks all of the queue's servers."""


@dataclass(frozen=True)
class Moved:
    """How many messages were moved, and how many lie there still (as SQS counts, roughly)."""

    messages: int
    left: int


def redrive_messages(graves: DeadLetters, queue: TaskSender) -> Moved:
    """Move what lies in ``graves`` now; what comes back to it meanwhile is not moved twice.

    Raises:
        Retry: a queue failed; what was moved stays moved, and running it again does the rest.
    """
    # The count lags behind on SQS: an empty one is no reason not to look.
    most = max(graves.depth(), MOST_AT_ONCE)
    moved = 0
    while moved < most:
        at_once = min(MOST_AT_ONCE, most - moved)
        messages = graves.receive(most=at_once, wait_seconds=WAIT_SECONDS)
        if not messages:
            break
        queue.send([message.body for message in messages])
        for message in messages:
            with suppress(LeaseLost):  # somebody else moves it as well: it comes twice
                graves.delete(message)
        moved += len(messages)
    return Moved(moved, graves.depth())
