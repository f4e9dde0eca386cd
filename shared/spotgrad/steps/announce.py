"""Announce: tell that a job has changed its state, and say how it stands for the alarms.

``reconcile`` tells states, after mending, once a minute: one that came and went in between is not
told. ``plan`` tells refusals, which leave no job to look at. At least once: the note is written
after the announcement, so a crash tells it twice.
"""

from contextlib import suppress
from dataclasses import dataclass

from spotgrad.errors import Malformed
from spotgrad.ports import Announcer
from spotgrad.protocol.announcement import Announcement
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import AnnouncedKey, RefusedKey
from spotgrad.protocol.refusal import Refusal
from spotgrad.steps.documents import find_document, find_head
from spotgrad.steps.receipt import find_receipt
from spotgrad.steps.world import World

__all__ = ["Standing", "announce", "announce_refusal"]


@dataclass(frozen=True)
class Standing:
    """How a job stands, in the numbers that alarms compare."""

    announced: str | None = None
    """The state that was told just now."""
    stalled: bool = False
    budget_used_percent: float | None = None
    """None without ``budget.max_usd``, and before the first receipt."""


def announce(world: World, announcer: Announcer | None, job: str) -> Standing:
    """Tell a new state, if anybody listens, and return how the job stands.

    Raises:
        Retry: the store or the topic failed; the next minute tells it.
        Malformed: the head is damaged.
    """
    present = find_head(world.store, job)
    if present is None:
        return Standing()
    head = present.head
    told = None if announcer is None else _tell(world, announcer, head)
    return Standing(told, _is_stalled(head), _budget_used_percent(world, head))


def announce_refusal(world: World, announcer: Announcer, job: str) -> bool:
    """Tell why the job's file was refused, once for each upload; return whether it was told now.

    Raises:
        Retry: the store or the topic failed; whoever plans it again tells it.
    """
    key = RefusedKey(job).render()
    refusal = find_document(world.store, key, Refusal)
    if refusal is None or refusal.told:
        return False
    told = refusal.model_copy(update={"told": True})
    announcer.announce(told.subject, told.to_json().decode())
    world.store.put(key, told.to_json())
    return True


def _tell(world: World, announcer: Announcer, head: Head) -> str | None:
    news = Announcement.of(head)
    if news.repeats(_last(world, head.job)):
        return None
    announcer.announce(news.subject, news.to_json().decode())
    world.store.put(AnnouncedKey(head.job).render(), news.to_json())
    return news.state


def _last(world: World, job: str) -> Announcement | None:
    with suppress(Malformed):
        return find_document(world.store, AnnouncedKey(job).render(), Announcement)
    return None


def _is_stalled(head: Head) -> bool:
    """Return whether ``planning.stuck`` has found a cause: a job that gets on has no reason."""
    return head.state in {"PLANNING", "RUNNING"} and head.reason is not None


def _budget_used_percent(world: World, head: Head) -> float | None:
    budget = world.plans.read(head).spec.budget
    receipt = find_receipt(world.store, head)
    if budget is None or budget.max_usd is None or receipt is None:
        return None
    return 100 * receipt.usd / budget.max_usd
