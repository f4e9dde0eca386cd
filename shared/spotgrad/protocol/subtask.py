"""The message that a worker receives: references, never data, well under 8 KB.

A message is a hint; the head is the truth. A worker drops a message whose subtask is not open.
"""

from typing import ClassVar

from pydantic import Field

from spotgrad.protocol.job import JobName
from spotgrad.protocol.wire import Document, Identifier, Part, SubtaskText


class ModelRef(Part):
    """One committed model version by its key."""

    version: int = Field(ge=0)
    commit: Identifier
    key: str


class Subtask(Document):
    """One unit of work: ``initialize``, ``train-<shard>`` or ``evaluate-<shard>`` of an epoch."""

    what: ClassVar[str] = "subtask message"

    job: JobName
    run: Identifier
    epoch: int = Field(ge=0)
    subtask: SubtaskText
    model: ModelRef | None = None
    """The version to evaluate; a training subtask takes the head's latest instead."""
