"""Protocols that are broken on purpose, each in one place: the model check must catch every one."""

from collections.abc import Callable, Iterator
from typing import Any, cast

from spotgrad.errors import ConditionFailed
from spotgrad.planning.standing import why_not_open
from spotgrad.ports import ObjectStore, ObjectSweeper
from spotgrad.protocol.head import Head, ObjectRef, WorkItem
from spotgrad.protocol.keys import HeadKey, ModelKey
from spotgrad.protocol.subtask import ModelRef
from spotgrad.protocol.tensors import digest
from spotgrad.steps import aggregate_results as product
from spotgrad.steps import commit as committing
from spotgrad.steps import decide_results as deciding
from spotgrad.steps.commit import message, send_outbox
from spotgrad.steps.decide_results import Decision, decide_results
from spotgrad.steps.documents import TaggedHead
from spotgrad.steps.succession import Successor, successor
from spotgrad.steps.world import World

Patch = tuple[object, str, Any]
"""Module or class, name, and what stands there instead."""


def head_without_if_match() -> Iterator[Patch]:
    """Whoever writes last wins."""

    def commit(store: ObjectStore, made: Successor, **_: object) -> str:
        store.put(made.head.ledger, made.entry.to_json())
        return store.put(HeadKey(made.head.job).render(), made.head.to_json())

    yield from ((module, "commit", commit) for module in (product, committing))


def counted_results_are_counted_again() -> Iterator[Patch]:
    """A duplicate is not dropped."""

    def why(head: Head, run: str, item: WorkItem) -> str | None:
        reason = why_not_open(head, run, item)
        return None if reason == "it is already counted" else reason

    yield from ((module, "why_not_open", why) for module in (product, deciding))


def head_before_its_ledger_entry() -> Iterator[Patch]:
    def commit(store: ObjectStore, made: Successor, *, only_if: str) -> str | None:
        try:
            etag = store.put(HeadKey(made.head.job).render(), made.head.to_json(), only_if=only_if)
        except ConditionFailed:
            return None
        store.put(made.head.ledger, made.entry.to_json())
        return etag

    yield from ((module, "commit", commit) for module in (product, committing))


class _DigestNamed(product._Step):
    """The protocol's first form: a version is named by its content, and a loser deletes its own."""

    def _with_objects(self, decision: Decision, before: Head) -> Successor:
        made = decision.made
        if made.head.version is None or made.head.version == before.version:
            return made
        nameless = made.head.model_copy(update={"commit": "0" * 16})
        plain = Successor(nameless, made.entry)
        body = self._bodies(Decision(**(vars(decision) | {"made": plain})), before)["server"]
        name = digest(body)[:16]
        key = ModelKey(self._job, made.head.version, name).render()
        self._world.store.put(key, body)
        server = ObjectRef(key=key, sha256=digest(body), size_bytes=len(body))
        model = ModelRef(version=made.head.version, commit=name, key=key)
        head = made.head.model_copy(update={"objects": {"server": server}, "model": model})
        return Successor(head, made.entry.model_copy(update={"server": server}))

    def _apply(self, decision: Decision, present: TaggedHead) -> bool:
        made = self._with_objects(decision, present.head)
        etag = committing.commit(self._world.store, made, only_if=present.etag)
        if etag is None:
            sweeper = cast("ObjectSweeper", self._world.store)
            sweeper.delete(made.head.objects["server"].key)
            return False
        send_outbox(self._world, TaggedHead(made.head, etag))
        return True


def losers_delete_what_is_named_by_digest() -> Iterator[Patch]:
    yield product, "_Step", _DigestNamed


def a_met_outbox_is_dropped() -> Iterator[Patch]:
    """A commit empties the outbox of the one before, unsent."""

    def send_nothing(step: object, head: Head) -> None:
        del step, head

    yield product._Step, "_send_met", send_nothing


def an_outbox_is_emptied_before_it_is_sent() -> Iterator[Patch]:
    def commit_and_send(world: World, present: TaggedHead) -> TaggedHead:
        head = present.head
        if not head.outbox:
            return present
        emptied = head.model_copy(update={"outbox": ()})
        made = successor(head, emptied, commit=world.new_id(), now=world.clock.now())
        etag = committing.commit(world.store, made, only_if=present.etag)
        world.subtasks.send([message(head, item) for item in head.outbox])
        return present if etag is None else TaggedHead(made.head, etag)

    yield product, "send_outbox", commit_and_send


def nothing_to_merge_nothing_sent() -> Iterator[Patch]:
    """Whoever finds its results counted goes home, also past an outbox that nobody has sent."""
    nothing = [False]

    def decide(*head_plan_arrivals: Any, **named: Any) -> Decision | None:
        decision = decide_results(*head_plan_arrivals, **named)
        nothing[0] = decision is None
        return decision

    def send(world: World, present: TaggedHead) -> TaggedHead:
        return present if nothing[0] else send_outbox(world, present)

    yield product, "decide_results", decide
    yield product, "send_outbox", send


BROKEN: dict[Callable[[], Iterator[Patch]], str] = {
    head_without_if_match: "never sent|never merged|merged twice|not linear|does not count",
    counted_results_are_counted_again: "merged twice",
    head_before_its_ledger_entry: "does not exist: state/",
    losers_delete_what_is_named_by_digest: "does not exist: models/",
    a_met_outbox_is_dropped: "never sent",
    an_outbox_is_emptied_before_it_is_sent: "never sent",
    nothing_to_merge_nothing_sent: "never sent",
}
"""Each broken protocol, and what the check has to find."""
