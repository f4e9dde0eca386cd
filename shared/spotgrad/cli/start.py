"""The console script ``spotgrad``: the command line, or one line where it is not installed.

The library alone brings neither typer nor boto3; whoever asks for commands then is told what to
install. Imports nothing of the command line before it is known to be there.
"""

import sys
from typing import Final

__all__ = ["main"]

USAGE: Final = 2
NEEDED: Final = frozenset({"typer", "rich", "boto3", "botocore"})
"""What the extra ``cli`` brings."""


def main() -> int:
    """Run the command line of ``sys.argv``; return the exit code."""
    try:
        from spotgrad.cli.main import main as run

        return run()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in NEEDED:
            raise
        sys.stderr.write(
            f"spotgrad: the command line is not installed ({error}): pip install 'spotgrad[cli]'\n"
        )
        return USAGE
