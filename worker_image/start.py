"""What both front doors (``python -m worker_image``, ``spotgrad worker``) do: listen, then work.

Signals are listened to before torch is imported, which takes seconds: a machine may be taken away
at any moment, and that is no error.
"""

from worker_image.interruption import Stop

__all__ = ["start"]


def start(*, until_idle_seconds: float | None, slow_seconds: float) -> int:
    """Work until idle or asked to stop, and return the exit code (see ``worker_image.main``)."""
    stop = Stop()
    stop.install()
    from worker_image.main import run  # torch comes with it

    return run(stop, until_idle_seconds=until_idle_seconds, slow_seconds=slow_seconds)
