"""Handlers for the execution-environment tests: what Lambda functions do, well and badly."""

import os
import sys
import threading
from typing import Any

calls = 0


def echo(event: Any, context: Any) -> object:
    """Tell what arrived, and print into what must not be the protocol."""
    global calls  # a warm environment keeps its module's state
    calls += 1
    print("a metric on standard output")  # noqa: T201 -- as Powertools does
    sys.stderr.write("a log line\n")
    return {
        "event": event,
        "calls": calls,
        "pid": os.getpid(),
        "bucket": os.environ.get("SPOTGRAD_BUCKET"),  # noqa: TID251 -- the child's own environment
        "function": context.function_name,
        "memory": context.memory_limit_in_mb,
        "arn": context.invoked_function_arn,
        "request_id": context.aws_request_id,
        "remaining_ms": context.get_remaining_time_in_millis(),
    }


def fail(event: Any, _context: Any) -> object:
    """Raise, with the event in the message."""
    raise ValueError(f"cannot do {event}\non two lines")


def hang(event: Any, _context: Any) -> object:
    """Say that it began (in the file that the event names), then never return."""
    with open(event["began"], "w") as began:  # noqa: PTH123 -- plain on purpose
        began.write(str(os.getpid()))
    threading.Event().wait()
    return None


def hang_if_asked(event: Any, context: Any) -> object:
    """Hang on one event, answer another."""
    return hang(event, context) if event else {"pid": os.getpid()}


def die(_event: Any, _context: Any) -> object:
    """End the process as a segmentation fault would."""
    os._exit(7)


def unserialisable(_event: Any, _context: Any) -> object:
    """Return what JSON cannot hold."""
    return {"a": {1, 2}}
