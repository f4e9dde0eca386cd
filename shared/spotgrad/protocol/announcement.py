"""``state/<job>/announced.json``: what was last told about a job to whoever listens.

The same document is the message and the note that it was sent. Not a decision: whoever loses it
is told the present state once more.
"""

from datetime import datetime
from typing import ClassVar

from pydantic import Field

from spotgrad.protocol.head import Head, JobState
from spotgrad.protocol.job import JobName
from spotgrad.protocol.wire import Document, Finite, Identifier


class Announcement(Document):
    """A job's state as it was told; read it from the head for anything but a message."""

    what: ClassVar[str] = "announcement"

    job: JobName
    run: Identifier
    state: JobState
    reason: str | None = None
    version: int | None = None
    results_merged: int = Field(default=0, ge=0)
    metrics: dict[str, Finite] = Field(default_factory=dict)
    at: datetime
    """When the head was last written."""

    @classmethod
    def of(cls, head: Head) -> "Announcement":
        """Return what there is to tell of the head."""
        return cls(
            job=head.job,
            run=head.run,
            state=head.state,
            reason=head.reason,
            version=head.version,
            results_merged=head.results_merged,
            metrics=head.metrics,
            at=head.updated_at,
        )

    @property
    def subject(self) -> str:
        """Return one line for people: at most 100 characters of ASCII, as SNS wants it.

        https://docs.aws.amazon.com/sns/latest/api/API_Publish.html
        """
        return f"spotgrad: {self.job} is {self.state}"

    def repeats(self, before: "Announcement | None") -> bool:
        """Return whether ``before`` has told this already."""
        return before is not None and (self.run, self.state) == (before.run, before.state)
