"""Why something was refused, kept where people and ``status`` find it."""

from datetime import datetime
from typing import ClassVar

from spotgrad.protocol.wire import Document, Sha256


class Refusal(Document):
    """``state/<job>/refused.json``: no head is left, so the next upload plans again."""

    what: ClassVar[str] = "refusal"

    job: str
    job_file_sha256: Sha256
    reason: str
    at: datetime
    told: bool = False
    """Whether somebody has been told; written after the telling."""

    @property
    def subject(self) -> str:
        """Return one line for people, as ``Announcement.subject``."""
        return f"spotgrad: job file of {self.job} refused"

    def repeats(self, before: "Refusal") -> bool:
        """Return whether both are about the same file and say the same."""
        return (self.job_file_sha256, self.reason) == (before.job_file_sha256, before.reason)


class Rejection(Document):
    """The sidecar under ``rejected/`` of a result that the admission gate refused."""

    what: ClassVar[str] = "rejection"

    result: str
    """The key of the refused object, which stays where its worker put it."""
    reason: str
