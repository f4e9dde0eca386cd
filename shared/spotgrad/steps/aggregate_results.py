"""Aggregate: results that landed -> admit -> merge -> next version -> what goes out next.

gather the head, the plan and the results; decide; merge; commit; send. Whatever happens between
two of its writes, running it again gives the same outcome. Invariant: it deletes nothing, and a
result is merged by exactly one commit, since the head that counts it is written under a condition.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from spotgrad.merging.kernel import to_master
from spotgrad.planning.standing import why_not_open
from spotgrad.protocol.head import Head, ObjectRef, WorkItem
from spotgrad.protocol.keys import RejectionKey, ResultKey
from spotgrad.protocol.ledger import SetAside
from spotgrad.protocol.refusal import Rejection
from spotgrad.steps.commit import commit, message, send_outbox, until_committed
from spotgrad.steps.decide_results import Decision, decide_results
from spotgrad.steps.documents import TaggedHead, find_head
from spotgrad.steps.model_file import merged_body, model_body
from spotgrad.steps.read_results import LoadedResult, load_result
from spotgrad.steps.succession import Successor
from spotgrad.steps.world import World


@dataclass(frozen=True)
class Aggregated:
    """What one step did, for logs and metrics."""

    version: int | None
    merged: int
    refused: tuple[SetAside, ...]
    dropped: int


def aggregate_results(world: World, job: str, keys: Sequence[ResultKey]) -> Aggregated:
    """Count every result of ``job`` under ``keys`` (in order of arrival) and commit the outcome.

    Raises:
        Retry: a store failed, or others committed first too often: run it again.
        NotFound: the job was planned, but its spec or its server copy is gone.
        Malformed: the server copy is not the one that was committed.
    """
    step = _Step(world, job, tuple(dict.fromkeys(keys)))
    until_committed(step.attempt, job)
    return step.report


class _Step:
    """One call: what has been read once stays read while commits are lost to others."""

    def __init__(self, world: World, job: str, keys: Sequence[ResultKey]) -> None:
        self._world = world
        self._job = job
        self._keys = keys
        self._models = world.models
        self._loaded: dict[ResultKey, LoadedResult] = {}
        self.report = Aggregated(None, 0, (), len(keys))

    def attempt(self) -> bool:
        """Gather, decide, merge, commit and send, once; return whether it is through."""
        present = find_head(self._world.store, self._job)
        if present is None:
            return True
        plan = self._world.plans.read(present.head)
        arrivals = [loaded.arrival for loaded in self._results(present.head)]
        commit_id, now = self._world.new_id(), self._world.clock.now()
        decision = decide_results(present.head, plan, arrivals, commit=commit_id, now=now)
        if decision is None:
            send_outbox(self._world, present)
            return True
        self._send_met(present.head)
        return self._apply(decision, present)

    def _results(self, head: Head) -> list[LoadedResult]:
        for key in self._keys:
            # A duplicate of what is counted is dropped before its tensors are fetched.
            item = WorkItem(epoch=key.epoch, subtask=key.subtask)
            if key not in self._loaded and why_not_open(head, head.run, item) is None:
                loaded = load_result(self._world.store, self._models, key)
                if loaded is not None:
                    self._loaded[key] = loaded
        return [self._loaded[key] for key in self._keys if key in self._loaded]

    def _send_met(self, head: Head) -> None:
        """Send an outbox that its committer has not emptied yet; this commit will empty it."""
        if head.outbox:
            self._world.subtasks.send([message(head, item) for item in head.outbox])

    def _apply(self, decision: Decision, present: TaggedHead) -> bool:
        self._keep_evidence(decision)
        made = self._with_server(decision, present.head)
        etag = commit(self._world.store, made, only_if=present.etag)
        if etag is None:
            return False
        send_outbox(self._world, TaggedHead(made.head, etag))
        entry = made.entry
        counted = len(entry.merged + entry.refused + entry.failed + entry.evaluated)
        counted += decision.initialized is not None
        dropped = len(self._keys) - counted
        self.report = Aggregated(made.head.version, len(entry.merged), entry.refused, dropped)
        return True

    def _keep_evidence(self, decision: Decision) -> None:
        for row in decision.refused:
            key = RejectionKey(self._job, row.epoch, row.subtask, row.attempt).render()
            self._world.store.put(key, Rejection(result=row.key, reason=row.reason).to_json())

    def _with_server(self, decision: Decision, before: Head) -> Successor:
        """Merge, write the new version, and name it in the head and the ledger entry."""
        made = decision.made
        if made.head.model is None or made.head.version == before.version:
            return made
        body = self._merged_body(decision, before)
        key = made.head.model.key
        self._world.store.put(key, body)
        server = ObjectRef(key=key, sha256=self._models.keep(key, body), size_bytes=len(body))
        return Successor(
            made.head.model_copy(update={"objects": {"server": server}}),
            made.entry.model_copy(update={"server": server}),
        )

    def _merged_body(self, decision: Decision, before: Head) -> bytes:
        head = decision.made.head
        if decision.initialized is not None:
            first = self._loaded[decision.initialized.key]
            return model_body(head, to_master(first.tensors), first.roles)
        server = self._models.read_committed(before.objects["server"])
        clients = [self._loaded[arrival.key].tensors for arrival in decision.merged]
        return merged_body(head, server, clients, decision.coefficients)
