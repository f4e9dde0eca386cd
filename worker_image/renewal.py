"""One process per job's code: a worker that has run one bundle begins anew before it runs another.

Imports leave traces that nothing takes back: patched modules, threads, native libraries, a default
dtype. So the process is replaced (exec: the same id, the same pipes, nothing else), and the message
that needs other code goes along under its lease: nobody receives it twice. Costs one start of the
interpreter and of torch, when the code changes.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from pydantic import TypeAdapter, ValidationError

from spotgrad.ports import Message
from spotgrad.settings import MissingSetting, variable
from worker_image.interruption import SIGNALS

__all__ = ["OtherCode", "arguments_of", "held_in", "renew"]

HELD: Final = variable("held_message")
_MESSAGES: Final = TypeAdapter(Message)

Exec = Callable[[str, list[str], dict[str, str]], NoReturn]


class OtherCode(Exception):
    """The message at hand needs other code than this process has run; its lease is fresh."""

    def __init__(self, held: Message) -> None:
        super().__init__(f"message {held.message_id} needs other code: beginning anew")
        self.held = held


def held_in(text: str | None) -> Message | None:
    """Return the message that the process before this one held, if there was one.

    Raises:
        MissingSetting: the variable holds something else.
    """
    if text is None:
        return None
    try:
        return _MESSAGES.validate_json(text)
    except ValidationError as error:
        raise MissingSetting(f"{HELD}: holds no message (unset it)") from error


def arguments_of(
    *, until_idle_seconds: float | None, slow_seconds: float, leave_with_parent: bool
) -> list[str]:
    """Return the command line that starts a worker like this one."""
    words = ["-m", "worker_image", "--slow", repr(slow_seconds)]
    words += [] if until_idle_seconds is None else ["--until-idle", repr(until_idle_seconds)]
    return [*words, *(["--leave-with-parent"] if leave_with_parent else [])]


def renew(held: Message, arguments: Sequence[str], execute: Exec = os.execve) -> NoReturn:
    """Replace this process; signals that come meanwhile wait for the next one's handlers."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    environment = {**os.environ, HELD: _MESSAGES.dump_json(held).decode()}  # noqa: TID251 - handed on, not read
    execute(sys.executable, [sys.executable, *arguments], environment)
