"""``watch``: show a job until it ends.

A store that cannot be reached for a while says nothing about the job: watching goes on.
"""

from collections.abc import Callable
from typing import Final

from spotgrad.cli.display import Display, open_display
from spotgrad.cli.output import Output
from spotgrad.cli.show import show_ended
from spotgrad.errors import Retry, Unsupported
from spotgrad.ports import Clock, ObjectReader
from spotgrad.steps.read_status import Status, read_status

__all__ = ["PERIOD_SECONDS", "follow", "refuse_to_wait", "watch"]

PERIOD_SECONDS: Final = 2.0

Wait = Callable[[float], object]
"""Waits that many seconds; ``threading.Event().wait``, which a signal interrupts."""


def watch(store: ObjectReader, clock: Clock, job: str, output: Output, wait: Wait) -> bool:
    """Show a job until it ends, then say how; return whether it SUCCEEDED.

    Raises:
        NotFound: there is no such job.
    """
    with open_display(output, clock) as display:
        status = follow(lambda: read_status(store, job, clock.now()), display, wait)
    output.document(status)
    show_ended(status, output)
    return status.state == "SUCCEEDED"


def refuse_to_wait(job: str, _seconds: float) -> None:
    """Be the ``wait`` of a job in a folder: there it would never end.

    Raises:
        Unsupported: always.
    """
    raise Unsupported(
        f"job {job}: nobody is at work in a folder; let it go on with"
        " spotgrad local run JOB.yaml --resume, which shows it too"
    )


def follow(read: Callable[[], Status], display: Display, wait: Wait) -> Status:
    """Feed the display until the job has ended; return its last status."""
    status = read()
    display.update(status)
    while not status.ended:
        wait(PERIOD_SECONDS)
        try:
            status = read()
        except Retry as error:
            display.update(status, [f"no news: {error}"])
        else:
            display.update(status)
    return status
