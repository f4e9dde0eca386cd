"""What ends a local run before its job does: Ctrl-C, SIGTERM, a closed terminal; all alike.

Each raises ``KeyboardInterrupt`` wherever the run is, and none has an effect while the run is being
saved: whoever presses Ctrl-C twice loses nothing. Only the main thread handles signals; elsewhere
both blocks change nothing.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_Handler = Callable[[int, FrameType | None], Any] | int | None


@contextmanager
def interruptible() -> Iterator[None]:
    """Let every signal raise ``KeyboardInterrupt``; one that is ignored (nohup) stays ignored."""
    with _handled(signal.default_int_handler):
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let no signal have an effect, for what has to be finished once it has begun."""
    with _handled(signal.SIG_IGN):
        yield


@contextmanager
def _handled(handler: _Handler) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        for number, present in before.items():
            if present is not signal.SIG_IGN:
                signal.signal(number, handler)
        yield
    finally:
        for number, present in before.items():
            signal.signal(number, present)
