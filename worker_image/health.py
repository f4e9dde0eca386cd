"""``python -m worker_image.health``: is the container's worker there, and does it get to run?

Docker's HEALTHCHECK; AWS Batch does not ask. Not a judgement of the work: leases and attempt
records watch that, and whoever stalls loses its lease. Healthy is a child of PID 1 that is neither
stopped nor a zombie.
"""

import sys
from pathlib import Path
from typing import Final

__all__ = ["healthy"]

PROC: Final = Path("/proc")
WORKER: Final = b"worker_image"
ILL: Final = frozenset({"T", "t", "Z", "X"})
"""Stopped, traced, zombie, dead: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html"""


def healthy(proc: Path = PROC, parent: int = 1) -> bool:
    """Return whether ``parent``, which is tini in the image, has a worker that runs or waits."""
    listed = proc / str(parent) / "task" / str(parent) / "children"
    try:
        children = [proc / pid for pid in listed.read_text(encoding="ascii").split()]
        return any(_is_worker(child) and _state(child) not in ILL for child in children)
    except (FileNotFoundError, ProcessLookupError):  # it ended while it was looked at
        return False


def _is_worker(process: Path) -> bool:
    return WORKER in (process / "cmdline").read_bytes().split(b"\0")


def _state(process: Path) -> str:
    """Return the state: the first field behind the name, which stands in parentheses."""
    return (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


if __name__ == "__main__":
    sys.exit(0 if healthy() else 1)
