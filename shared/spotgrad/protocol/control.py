"""``jobs/<job>/control.json``: what the user wants of a job, beside its job file."""

from typing import ClassVar

from pydantic import Field

from spotgrad.protocol.wire import Document


class Control(Document):
    """A new ``resume`` token asks for every open subtask to be issued anew."""

    what: ClassVar[str] = "control file"

    resume: str | None = Field(default=None, pattern=r"^[0-9a-f]{8,64}$")
