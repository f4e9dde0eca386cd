"""``jobs/<job>/control.json``: what the user wants of a job, beside its job file.

A wish, not a command: ``plan`` (at its upload) and ``reconcile`` (every minute) bring the head in
line with it. Tokens make it idempotent: a wish that the head has noted is not carried out again.
"""

from typing import ClassVar, Literal

from pydantic import Field

from spotgrad.protocol.head import WorkItem
from spotgrad.protocol.wire import Document, Identifier, Part

Want = Literal["run", "pause", "cancel"]


class Redrive(Part):
    """Dead subtasks that are to be tried again: those named, or all when none is."""

    token: Identifier
    subtasks: tuple[WorkItem, ...] = ()


class Control(Document):
    """What the user wants; the last upload counts.

    ``resume``: a new token asks for every open subtask to be issued anew.
    """

    what: ClassVar[str] = "control file"

    want: Want = "run"
    resume: Identifier | None = Field(default=None)
    redrive: Redrive | None = None
