"""``jobs/<job>/control.json`` (what the user wants) and ``state/<job>/refused.json``."""

from datetime import datetime
from typing import ClassVar

from spotgrad.protocol.wire import Document, Sha256


class Control(Document):
    """A new ``resume`` token asks for every open subtask to be issued anew."""

    what: ClassVar[str] = "control file"

    resume: str | None = None


class Refusal(Document):
    """Why a job file was refused; no head is left, so the next upload plans again."""

    what: ClassVar[str] = "refusal"

    job: str
    job_file_sha256: Sha256
    reason: str
    at: datetime
