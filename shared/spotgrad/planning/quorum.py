"""The quorum of admission: a sampled share of subtasks is trained again elsewhere, and compared.

The first result is merged as ever and nothing waits for the check: it finds bad workers, it does
not undo what they did. Where the second result disagrees, a third decides who is outvoted; whoever
is outvoted ``LIMIT`` times is quarantined. Not the comparison (``merging.agreement``). Invariant:
which subtasks are sampled follows from seed, epoch and name; no worker judges a subtask twice.
"""

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final

from spotgrad.planning.leases import Sky
from spotgrad.planning.standing import plain, without
from spotgrad.protocol.head import LIMIT, Check, Head, Opinion, WorkItem
from spotgrad.protocol.subtask import ModelRef

_DRAWS: Final = 2**64


def is_sampled(seed: int, item: WorkItem, share: float) -> bool:
    """Return whether this subtask is among the ``share`` that is trained again."""
    drawn = sha256(f"{seed}/{item.epoch}/{item.subtask}/quorum".encode()).digest()[:8]
    return int.from_bytes(drawn) < share * _DRAWS


def ask(head: Head, item: WorkItem, first: Opinion, began: ModelRef, now: datetime) -> Head:
    """Return the head that sends a merged subtask out again, to be compared with ``first``."""
    check = Check(
        epoch=item.epoch,
        subtask=item.subtask,
        model=began,
        opinions=(first,),
        begun_at=now,
        sent_at=now,
    )
    return _sent(head, check, now)


def hear(
    head: Head, check: Check, said: Opinion, agrees: Sequence[bool], now: datetime
) -> tuple[Head, str]:
    """Return the head after one more opinion, and what it comes to, in words.

    ``agrees``: whether it is like each of the opinions that were there before, in their order.
    """
    if any(agrees) or len(check.opinions) > 1:
        head = head.model_copy(update={"checks": without(head.checks, check)})
        outvoted = None if all(agrees) else _outvoted(check, agrees)
        if outvoted is None:
            return head, _verdict(agrees, check)
        times = head.dissent.get(outvoted, 0) + 1
        end = ": it is quarantined" if times == LIMIT else ""
        dissent = head.dissent | {outvoted: times}
        said_so = f"{outvoted} was outvoted, {times} of {LIMIT}{end}"
        return head.model_copy(update={"dissent": dissent}), said_so
    heard = check.model_copy(update={"opinions": (*check.opinions, said)})
    return _sent(head, heard, now), f"disagrees with {check.opinions[0].worker}: a third decides"


def tend_checks(head: Head, sky: Sky) -> Head:
    """Return the head with checks that nobody makes sent again, or given up after a long wait."""
    for check in head.checks:
        if sky.now - check.begun_at > sky.longest_wait:
            head = head.model_copy(update={"checks": without(head.checks, check)})
        elif sky.now - check.sent_at > sky.two_leases and not sky.alive(check):
            head = _sent(head, check, sky.now)
    return head


def _sent(head: Head, check: Check, now: datetime) -> Head:
    fresh = check.model_copy(update={"sent_at": now})
    return head.model_copy(
        update={
            "checks": (*without(head.checks, check), fresh),
            "outbox": (*without(head.outbox, check), plain(check)),
        }
    )


def _outvoted(check: Check, agrees: Sequence[bool]) -> str | None:
    """Return who stands alone among three; None where all three differ."""
    return check.opinions[agrees.index(False)].worker if any(agrees) else None


def _verdict(agrees: Sequence[bool], check: Check) -> str:
    names = " and ".join(one.worker for one in check.opinions)
    return f"agrees with {names}" if all(agrees) else f"{names} and it all differ: nobody is judged"
