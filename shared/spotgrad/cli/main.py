"""The entry point ``spotgrad``: runs a command and turns whatever goes wrong into an exit code.

0 done, 1 failed, 2 usage or an invalid job file, 130 interrupted. An error is one line on stderr,
with ``--json`` also the document ``{"error": ...}`` on stdout; there is never a traceback for what
a person can mend.
"""

import sys
from collections.abc import Sequence
from typing import Any, Final

import typer
from typer.main import get_command

from spotgrad.cli.app import app
from spotgrad.cli.output import write_document
from spotgrad.cli.plugins import NotInstalled
from spotgrad.errors import InvalidJob, SpotgradError
from spotgrad.settings import MissingSetting

__all__ = ["FAILED", "INTERRUPTED", "USAGE", "main"]

FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells say

_USAGE_ERRORS: Final = (InvalidJob, MissingSetting, NotInstalled)
# The root of what typer finds wrong; its versions share no public name for it.
_TyperError: Final[Any] = typer.BadParameter.__mro__[2]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (``sys.argv`` by default) and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    code, problem = _run(arguments)
    if problem is not None:
        sys.stderr.write(f"spotgrad: {problem}\n")
        if "--json" in arguments:
            write_document({"error": problem})
    return code


def _run(arguments: list[str]) -> tuple[int, str | None]:
    """Return the exit code and, if something went wrong, one line about it."""
    try:
        code = get_command(app)(args=arguments, prog_name="spotgrad", standalone_mode=False)
    except SpotgradError as error:
        return USAGE if isinstance(error, _USAGE_ERRORS) else FAILED, _line(str(error))
    except _TyperError as error:
        return error.exit_code, _usage(error)
    except OSError as error:
        return FAILED, _line(str(error))
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED, "interrupted"
    return (code or 0, "interrupted" if code == INTERRUPTED else None)


def _usage(error: Any) -> str:
    where = getattr(getattr(error, "ctx", None), "command_path", "spotgrad")
    return f"{_line(error.format_message())} (see {where} --help)"


def _line(text: str) -> str:
    return " ".join(text.split())
