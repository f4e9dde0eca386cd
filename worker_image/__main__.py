"""The container's entry: ``python -m worker_image [--until-idle SECONDS] [--slow SECONDS]``.

``--leave-with-parent`` is for a fleet on one machine: its workers must not outlive it.
"""

import argparse
import math
import sys
from collections.abc import Sequence

from worker_image.start import start

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, work, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m worker_image", description=__doc__)
    parser.add_argument(
        "--until-idle",
        type=_seconds,
        metavar="SECONDS",
        help="leave when nothing came for this long (0: at the first empty receive)",
    )
    parser.add_argument(
        "--slow",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="wait in each training subtask, for fault tests",
    )
    parser.add_argument(
        "--leave-with-parent",
        action="store_true",
        help="leave when standard input ends, which it does when the parent process ends",
    )
    options = parser.parse_args(arguments)
    return start(
        until_idle_seconds=options.until_idle,
        slow_seconds=options.slow,
        leave_with_parent=options.leave_with_parent,
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"{text} is no number of seconds")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
