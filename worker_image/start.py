"""What both front doors (``python -m worker_image``, ``spotgrad worker``) do: listen, then work.

Signals are listened to before torch is imported, which takes seconds: a machine may be taken away
at any moment, and that is no error.
"""

import os
import sys
import threading

from worker_image.interruption import Stop
from worker_image.renewal import OtherCode, arguments_of, renew

__all__ = ["start"]


def start(
    *, until_idle_seconds: float | None, slow_seconds: float, leave_with_parent: bool = False
) -> int:
    """Work until idle or asked to stop, and return the exit code (see ``worker_image.main``)."""
    stop = Stop()
    stop.install()
    if leave_with_parent:
        threading.Thread(target=_stop_with, args=(sys.stdin.fileno(), stop), daemon=True).start()
    from worker_image.main import run  # torch comes with it

    try:
        return run(stop, until_idle_seconds=until_idle_seconds, slow_seconds=slow_seconds)
    except OtherCode as other:
        renew(
            other.held,
            arguments_of(
                until_idle_seconds=until_idle_seconds,
                slow_seconds=slow_seconds,
                leave_with_parent=leave_with_parent,
            ),
        )


def _stop_with(stdin: int, stop: Stop) -> None:
    """Ask the worker to stop when ``stdin`` ends: the kernel closes it even after a SIGKILL."""
    # Not through sys.stdin: the interpreter aborts at exit while a thread holds its buffer's lock.
    while os.read(stdin, 4096):
        pass
    stop.request(0.0)
