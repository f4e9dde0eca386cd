"""Where a command's words go: one JSON document on stdout, or lines and colours for a person.

Not the errors: ``main`` prints those. Invariant: with ``--json`` nothing but the one document is
written to stdout; colours appear on a terminal alone, and never when NO_COLOR is set (rich sees to
both). Lines are never wrapped or cut: whoever pipes them gets what was said.
"""

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pydantic_core import to_json
from rich.console import Console
from rich.progress import Progress

__all__ = ["Output", "size_text", "write_document"]


def write_document(content: Any) -> None:
    """Print ``content`` (models, dataclasses, times and paths included) as JSON on stdout."""
    # A metric that is NaN has no number in JSON: null.
    sys.stdout.write(to_json(content, indent=2, inf_nan_mode="null").decode() + "\n")


class Output:
    """One command's output; make it inside the command, so that it sees the present stdout."""

    def __init__(self, *, as_json: bool, bucket: str | None = None, at_rest: bool = False) -> None:
        """``at_rest``: the bucket is a folder that a local run left, where nobody is at work."""
        self.as_json = as_json
        self._bucket = bucket
        self._at_rest = at_rest
        self.console = Console(soft_wrap=True, highlight=False, markup=False, emoji=False)
        self._errors = Console(
            stderr=True, soft_wrap=True, highlight=False, markup=False, emoji=False
        )

    @property
    def live(self) -> bool:
        """Return whether a person watches a terminal that may be redrawn."""
        return not self.as_json and self.console.is_terminal and not self.console.no_color

    def document(self, content: Any) -> None:
        """Print the command's document, if documents are wanted."""
        if self.as_json:
            write_document(content)

    def say(self, text: str = "", style: str | None = None) -> None:
        """Print a line for a person."""
        if not self.as_json:
            self.console.print(text, style=style)

    def advise(self, command: str) -> None:
        """Say what a person does next with the same bucket; the line can be pasted as it is."""
        where = "" if self._bucket is None else f" --bucket {shlex.quote(self._bucket)}"
        self.say(f"next: spotgrad {command}{where}")

    def advise_going_on(self, command: str) -> None:
        """As ``advise``, for a command that needs somebody at work on the job."""
        if self._at_rest:
            self.say("next: spotgrad local run JOB.yaml --resume")
        else:
            self.advise(command)

    def warn(self, text: str) -> None:
        """Print a warning on stderr; in JSON it belongs into the document instead."""
        if not self.as_json:
            self._errors.print(f"warning: {text}", style="yellow")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print aligned columns under a header; None is shown as ``-``."""
        lines = [header, *([_cell(value) for value in row] for row in rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
        for number, line in enumerate(lines):
            cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            self.say("  ".join(cells).rstrip(), style=None if number else "bold")

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """Yield a progress display that is seen only on a terminal and gone afterwards."""
        with Progress(console=self.console, disable=not self.live, transient=True) as progress:
            yield progress


def counted(number: int, noun: str) -> str:
    """Return ``1 shard`` or ``2 shards``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def size_text(size_bytes: int) -> str:
    """Return a size as a person reads it, in powers of 1000."""
    size, unit = float(size_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def _cell(value: object) -> str:
    return "-" if value is None else str(value)
