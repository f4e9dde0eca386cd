"""``python -m tests.infra.mirror [ARGUMENT ...]``: tells what it sees, answers, and ends with 7.

Not a test: the program that the tests of child processes start.
"""

import os
import sys
import threading

SEEN = 7


def main(arguments: list[str]) -> int:
    if arguments == ["linger"]:
        say("lingering")
        threading.Event().wait()
    if arguments[:1] == ["loaded"]:
        say(*(name in sys.modules for name in arguments[1:]))
        return SEEN
    line = sys.stdin.readline().strip()
    value = os.environ["SPOTGRAD_TEST"]  # noqa: TID251 -- the child's own environment
    name = f"{__name__} {','.join(arguments)}"
    say(name, value, line, os.getpid(), os.getpgrp())
    sys.stderr.write("to the log\n")
    sys.stdin.read()
    say("end of input")
    return SEEN


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201 -- what it is for


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
