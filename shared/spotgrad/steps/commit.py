"""The commit: one ledger entry, then the head under a condition. The only writer of a head.

A commit has happened when, and only when, the head that names it was written. An entry whose head
lost is an orphan: harmless, off the chain, swept by ``reconcile``.
"""

from collections.abc import Callable

from spotgrad.errors import ConditionFailed, Retry, StoreUnavailable
from spotgrad.ports import ABSENT, Absent, ObjectStore
from spotgrad.protocol.head import Head, WorkItem
from spotgrad.protocol.keys import HeadKey
from spotgrad.protocol.subtask import Subtask
from spotgrad.steps.documents import TaggedHead, find_head
from spotgrad.steps.succession import Successor, successor
from spotgrad.steps.world import World

ATTEMPTS = 12
"""How often a step decides again after losing; each loss means that another commit went through."""


def commit(store: ObjectStore, made: Successor, *, only_if: Absent | str) -> str | None:
    """Write the ledger entry, then the head; return the head's entity tag, or None when it lost.

    A lost answer is no loss: 412 and 409, like a timeout, leave the effect unknown (S3 may have
    written before the answer vanished), so the head is read again and asked whose commit it holds.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
    """
    store.put(made.head.ledger, made.entry.to_json())
    try:
        return store.put(HeadKey(made.head.job).render(), made.head.to_json(), only_if=only_if)
    except (ConditionFailed, StoreUnavailable) as error:
        present = find_head(store, made.head.job)
        if present is not None and present.head.commit == made.head.commit:
            return present.etag
        if isinstance(error, ConditionFailed):
            return None
        raise


def commit_new(store: ObjectStore, made: Successor) -> str | None:
    """Create the job's head; None when there is one already."""
    return commit(store, made, only_if=ABSENT)


def until_committed(step: Callable[[], bool], job: str) -> None:
    """Run ``step`` until it says that it is through, a bounded number of times.

    Raises:
        Retry: others committed first each time; the message comes back.
    """
    for _ in range(ATTEMPTS):
        if step():
            return
    raise Retry(f"job {job}: lost {ATTEMPTS} commits in a row to others; trying again later")


def send_outbox(world: World, present: TaggedHead) -> TaggedHead:
    """Send everything in the outbox, then commit it empty; return the head as it then is.

    Losing that second commit does no harm: whoever won has met the outbox as well.
    """
    head = present.head
    if not head.outbox:
        return present
    world.subtasks.send([message(head, item) for item in head.outbox])
    emptied = head.model_copy(update={"outbox": ()})
    made = successor(head, emptied, commit=world.new_id(), now=world.clock.now())
    etag = commit(world.store, made, only_if=present.etag)
    return present if etag is None else TaggedHead(made.head, etag)


def message(head: Head, item: WorkItem) -> str:
    """Return the queue message for a subtask: references only."""
    evaluated = {one.epoch: one.model for one in head.evaluations}
    evaluates = item.subtask.startswith("evaluate")
    return (
        Subtask(
            job=head.job,
            run=head.run,
            epoch=item.epoch,
            subtask=item.subtask,
            model=evaluated.get(item.epoch) if evaluates else None,
        )
        .to_json()
        .decode()
    )
