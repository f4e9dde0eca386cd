"""Aggregate: results that landed -> admit -> merge -> next version -> what goes out next.

gather the head, the plan and the results; decide; merge; commit; send. Whatever happens between
two of its writes, running it again gives the same outcome. Invariant: it deletes nothing, and a
result is merged by exactly one commit, since the head that counts it is written under a condition.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from spotgrad.merging.rule import first_objects
from spotgrad.planning.standing import check_of, why_not_open
from spotgrad.protocol.head import Head, ObjectRef, WorkItem
from spotgrad.protocol.keys import ModelKey, RejectionKey, ResultKey
from spotgrad.protocol.ledger import SetAside
from spotgrad.protocol.recipe import SERVER
from spotgrad.protocol.refusal import Rejection
from spotgrad.steps.arrival import Arrival
from spotgrad.steps.commit import commit, message, send_outbox, until_committed
from spotgrad.steps.compare_results import compared
from spotgrad.steps.decide_results import Decision, decide_results
from spotgrad.steps.documents import TaggedHead, find_head
from spotgrad.steps.model_file import first_bodies, gather, merged_bodies, roles_of
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
    while True:
        until_committed(step.attempt, job)
        if not step.left:
            return step.report


class _Step:
    """One call: what has been read once stays read while commits are lost to others."""

    def __init__(self, world: World, job: str, keys: Sequence[ResultKey]) -> None:
        self._world = world
        self._job = job
        self._keys = keys
        self._models = world.models
        self._loaded: dict[ResultKey, LoadedResult] = {}
        self.left: tuple[ResultKey, ...] = ()
        self.report = Aggregated(None, 0, (), len(keys))

    def attempt(self) -> bool:
        """Gather, decide, merge, commit and send, once; return whether it is through."""
        present = find_head(self._world.store, self._job)
        if present is None:
            return True
        plan = self._world.plans.read(present.head)
        self.left = ()
        arrivals = [self._compared(present.head, one) for one in self._results(present.head)]
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

    def _compared(self, head: Head, loaded: LoadedResult) -> Arrival:
        """Return the arrival and, where it is of a check, how it stands to the other results."""
        check = check_of(head, loaded.arrival.item)
        if check is None:
            return loaded.arrival
        return compared(self._world.store, self._models, check, loaded)

    def _send_met(self, head: Head) -> None:
        """Send an outbox that its committer has not emptied yet; this commit will empty it."""
        if head.outbox:
            self._world.subtasks.send([message(head, item) for item in head.outbox])

    def _apply(self, decision: Decision, present: TaggedHead) -> bool:
        self._keep_evidence(decision)
        made = self._with_objects(decision, present.head)
        etag = commit(self._world.store, made, only_if=present.etag)
        if etag is None:
            return False
        send_outbox(self._world, TaggedHead(made.head, etag))
        self._keys = self.left = decision.left
        self.report = _with(self.report, decision)
        return True

    def _keep_evidence(self, decision: Decision) -> None:
        for row in decision.refused:
            key = RejectionKey(self._job, row.epoch, row.subtask, row.attempt).render()
            self._world.store.put(key, Rejection(result=row.key, reason=row.reason).to_json())

    def _with_objects(self, decision: Decision, before: Head) -> Successor:
        """Merge, write what came out, and name it in the head and the ledger entry."""
        head, entry = decision.made.head, decision.made.entry
        written: dict[str, ObjectRef] = {}
        for name, body in self._bodies(decision, before).items():
            key = ModelKey(self._job, head.version or 0, head.commit, name).render()
            self._world.store.put(key, body)
            sha256 = self._models.keep(key, body)
            written[name] = ObjectRef(key=key, sha256=sha256, size_bytes=len(body))
        drops = decision.recipe.drops
        kept = {name: one for name, one in before.objects.items() if name not in drops}
        others = {name: one for name, one in written.items() if name != SERVER}
        return Successor(
            head.model_copy(update={"objects": kept | written}),
            entry.model_copy(update={"server": written.get(SERVER), "objects": others}),
        )

    def _bodies(self, decision: Decision, before: Head) -> dict[str, bytes]:
        head, entry, recipe = decision.made.head, decision.made.entry, decision.recipe
        if decision.initialized is not None:
            first = self._loaded[decision.initialized.key]
            names = first_objects(self._world.plans.read(head).spec.merge)
            return first_bodies(head, first.tensors, first.roles, names)
        if not recipe.outputs:
            return {}
        found = {
            name: self._models.read_committed(one)
            for name, one in before.objects.items()
            if recipe.needs_object(name)
        }
        objects = {name: file.tensors for name, file in found.items()}
        results = [self._loaded[arrival.key] for arrival in decision.merged]
        inputs = gather(
            recipe,
            objects,
            [one.tensors for one in results],
            lambda number: self._models.read(entry.base_key(number)).tensors,
        )
        return merged_bodies(head, recipe, inputs, roles_of(found[SERVER]))


def _with(report: Aggregated, decision: Decision) -> Aggregated:
    """Return the report with one more commit."""
    entry = decision.made.entry
    aside = entry.refused + entry.failed + entry.evaluated + entry.late + entry.compared
    counted = len(entry.merged) + len(aside) + (decision.initialized is not None)
    return Aggregated(
        decision.made.head.version,
        report.merged + len(entry.merged),
        report.refused + entry.refused,
        report.dropped - counted,
    )
