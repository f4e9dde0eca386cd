"""``python -m infra.local.runtime functions.plan.app.handler``: one Lambda execution environment.

Imports the handler by its Handler string, then answers one JSON line on standard output for each
JSON line on standard input, and ends when that closes. The protocol has a private copy of
standard output: whatever the handler prints goes to standard error, where the log is.

    <- {"ready": true}  |  {"error": {...}}                      once, after the import
    -> {"event", "request_id", "function_name", "memory_mb", "timeout_seconds"}
    <- {"response": ...}  |  {"error": {"errorType", "errorMessage", "stackTrace"}}
"""

import importlib
import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

Handler = Callable[[Any, Any], object]

_REGION_AND_ACCOUNT = "us-east-1:123456789012"


@dataclass(frozen=True)
class Context:
    """What AWS Lambda passes as the second argument, as far as handlers and Powertools read it."""

    function_name: str
    memory_limit_in_mb: str
    aws_request_id: str
    deadline: float  # of time.monotonic(), in seconds
    function_version: str = "$LATEST"

    @property
    def invoked_function_arn(self) -> str:
        """The ARN that the function would have."""
        return f"arn:aws:lambda:{_REGION_AND_ACCOUNT}:function:{self.function_name}"

    @property
    def log_group_name(self) -> str:
        """The log group that the function would have."""
        return f"/aws/lambda/{self.function_name}"

    @property
    def log_stream_name(self) -> str:
        """A name for this execution environment."""
        return f"local/[{self.function_version}]{os.getpid()}"

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until the caller kills this process."""
        return max(0, int((self.deadline - time.monotonic()) * 1000))


def load_handler(name: str) -> Handler:
    """Import ``package.module.function``."""
    module, _, function = name.rpartition(".")
    handler: Handler = getattr(importlib.import_module(module), function)
    return handler


def answer(handler: Handler, request: dict[str, Any]) -> str:
    """Run the handler once and return the line that answers the request."""
    context = Context(
        function_name=request["function_name"],
        memory_limit_in_mb=str(request["memory_mb"]),
        aws_request_id=request["request_id"],
        deadline=time.monotonic() + request["timeout_seconds"],
    )
    try:
        return json.dumps({"response": handler(request["event"], context)})
    except Exception as error:  # noqa: BLE001 -- the edge: the invoker is told, as Lambda tells it
        return json.dumps(_report(error))


def main(arguments: list[str]) -> int:
    """Serve requests until standard input closes; returns only when the import failed."""
    incoming, protocol = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    _give_the_handler_streams_of_its_own()
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(incoming, requests), daemon=True).start()
    try:
        handler = load_handler(arguments[0])
    except Exception as error:  # noqa: BLE001 -- user code may raise anything while it is imported
        _say(protocol, json.dumps(_report(error)))
        return 1
    _say(protocol, json.dumps({"ready": True}))
    while True:
        _say(protocol, answer(handler, json.loads(requests.get())))


def _give_the_handler_streams_of_its_own() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)


def _read(stream: BinaryIO, requests: "queue.SimpleQueue[bytes]") -> None:
    for line in stream:
        requests.put(line)
    os._exit(0)  # the parent is gone or wants us gone, whatever the handler is doing


def _say(protocol: BinaryIO, line: str) -> None:
    protocol.write(line.encode() + b"\n")
    protocol.flush()


def _report(error: Exception) -> dict[str, object]:
    traceback.print_exception(error)  # into the log, as Lambda does
    return {
        "error": {
            "errorType": type(error).__name__,
            "errorMessage": str(error),
            "stackTrace": traceback.format_tb(error.__traceback__),
        }
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
