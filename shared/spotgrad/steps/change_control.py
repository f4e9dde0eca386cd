"""Change control: a person's new wish beside those that stand in the control file already.

Not the carrying out: ``control_job`` does that where the functions run. Invariant: two people who
change different wishes at once both get theirs, for the file is replaced under a condition.
"""

from collections.abc import Callable
from datetime import datetime

from spotgrad.errors import ConditionFailed, Malformed, NotFound
from spotgrad.planning.control import obey
from spotgrad.ports import ABSENT, Absent, ObjectReader, ObjectStore
from spotgrad.protocol.control import Control
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import ControlKey
from spotgrad.steps.commit import until_committed
from spotgrad.steps.documents import read_plan

__all__ = ["change_control", "is_to_go_on", "read_control"]


def change_control(store: ObjectStore, job: str, change: Callable[[Control], Control]) -> Control:
    """Replace the job's control file by what ``change`` makes of it; return that.

    Raises:
        Retry: a store failed, or others changed it first each time.
    """
    key, written = ControlKey(job).render(), Control()

    def attempt() -> bool:
        nonlocal written
        present, only_if = _find(store, key)
        written = change(present or Control())
        if written == present:
            return True
        try:
            store.put(key, written.to_json(), only_if=only_if)
        except ConditionFailed:
            return False
        return True

    until_committed(attempt, job)
    return written


def read_control(store: ObjectReader, job: str) -> Control:
    """Return what the user wants of the job now; a damaged file says nothing."""
    present, _ = _find(store, ControlKey(job).render())
    return present or Control()


def is_to_go_on(store: ObjectReader, head: Head, now: datetime) -> bool:
    """Return whether this ended job is under way again once its wishes are carried out."""
    control = read_control(store, head.job)
    return head.ended and not obey(head, read_plan(store, head.job), control, now).ended


def _find(store: ObjectReader, key: str) -> tuple[Control | None, Absent | str]:
    """Return the wishes, None where they cannot be read, and what the file is replaced under."""
    try:
        found = store.get(key)
    except NotFound:
        return None, ABSENT
    try:
        return Control.from_json(found.body), found.etag
    except Malformed:
        return None, found.etag
