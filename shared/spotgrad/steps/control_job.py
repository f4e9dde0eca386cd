"""Control: what the user wants of a job -> the head that is so. Gather, decide, commit, send.

``plan`` calls it when ``control.json`` is uploaded, ``reconcile`` every minute. Idempotent, and
safe twice at once: a wish that the head has noted is not carried out again.
"""

from dataclasses import dataclass

from spotgrad.planning.control import obey
from spotgrad.protocol.control import Control
from spotgrad.protocol.head import Head, JobState
from spotgrad.protocol.keys import ActiveKey, ControlKey
from spotgrad.steps.commit import commit, send_outbox, until_committed
from spotgrad.steps.documents import TaggedHead, find_document, find_head
from spotgrad.steps.succession import successor
from spotgrad.steps.world import World


@dataclass(frozen=True)
class Controlled:
    """What the wish came to, for logs; no state when there is no wish, or no plan yet."""

    state: JobState | None = None
    changed: bool = False
    reissued: int = 0


def control_job(world: World, job: str) -> Controlled:
    """Bring the job in line with its control file, if it has one.

    Raises:
        Retry: a store failed, or others committed first too often: run it again.
        Malformed: the user's control file is damaged.
    """
    step = _Step(world, job)
    until_committed(step.attempt, job)
    return step.report


class _Step:
    def __init__(self, world: World, job: str) -> None:
        self._world = world
        self._job = job
        self.report = Controlled()

    def attempt(self) -> bool:
        """Read, decide, commit and send, once; return whether it is through."""
        store = self._world.store
        present = find_head(store, self._job)
        control = find_document(store, ControlKey(self._job).render(), Control)
        if present is None or control is None:
            return True  # planning reads the control file itself
        plan = self._world.plans.read(present.head)
        after = obey(present.head, plan, control, self._world.clock.now())
        if after == present.head:
            self.report = Controlled(after.state)
            self._mark_redriven(after)
            return True
        return self._apply(present, after)

    def _apply(self, present: TaggedHead, after: Head) -> bool:
        if present.head.ended and not after.ended:
            # Before the commit: whoever dies in between leaves a mark, not a job nobody tends.
            self._world.store.put(ActiveKey(self._job).render(), b"")
        now = self._world.clock.now()
        made = successor(present.head, after, commit=self._world.new_id(), now=now)
        etag = commit(self._world.store, made, only_if=present.etag)
        if etag is None:
            return False
        self._mark_redriven(after)
        send_outbox(self._world, TaggedHead(made.head, etag))
        reissued = after.counts.reissued - present.head.counts.reissued
        self.report = Controlled(after.state, changed=True, reissued=reissued)
        return True

    def _mark_redriven(self, head: Head) -> None:
        """Mark a redriven job as live, unless it is marked.

        ``reconcile`` deletes the mark of an ended job, perhaps between our mark and our commit.
        """
        if head.redrive_token is None or head.ended:
            return
        key = ActiveKey(self._job).render()
        if not any(info.key == key for info in self._world.store.list(key)):
            self._world.store.put(key, b"")
