"""``spotgrad worker``: the container's loop on this machine, by hand.

The container itself has no typer and starts with ``python -m worker_image``.
"""

from typing import Annotated

import typer

from worker_image.start import start

__all__ = ["worker"]


def worker(
    *,
    until_idle: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Leave when nothing came for this long."),
    ] = None,
    slow: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="Wait in each training subtask (fault tests)."),
    ] = 0.0,
) -> None:
    """Work on subtasks until stopped; SPOTGRAD_BUCKET and SPOTGRAD_SUBTASKS_QUEUE_URL say where."""
    raise typer.Exit(start(until_idle_seconds=until_idle, slow_seconds=slow))
