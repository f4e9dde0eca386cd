"""``python -m tests.ministack.server``: ministack on a free loopback port, as one process.

It goes on in the interpreter of ministack's own virtual environment, so it imports nothing of ours.
What it promises is what ``infra.local.emulator.Server`` asks for: one JSON line ``{"port": N}``,
and an end when standard input closes.
"""

import asyncio
import json
import os
import socket
import sys
import threading
from importlib import import_module

LOOPBACK = "127.0.0.1"
BACKLOG = 128
THERE = "there"


def main() -> None:
    """Change to ministack's interpreter, and serve there."""
    if sys.argv[1:] == [THERE]:
        serve()
    python = os.environ["MINISTACK_PYTHON"]  # noqa: TID251 -- it has no settings to go by
    os.execv(python, [python, "-P", "-u", __file__, THERE])  # noqa: S606 -- no shell is wanted


def serve() -> None:
    """Serve until standard input closes."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    listener = socket.create_server((LOOPBACK, 0), backlog=BACKLOG)
    port = listener.getsockname()[1]
    os.environ["GATEWAY_PORT"] = str(port)  # noqa: TID251 -- ministack reads it when imported
    app = import_module("ministack.app").app
    config = import_module("hypercorn.config").Config()
    config.bind = [f"fd://{listener.fileno()}"]
    config.loglevel = "WARNING"
    sys.stdout.write(json.dumps({"port": port}) + "\n")
    sys.stdout.flush()
    asyncio.run(import_module("hypercorn.asyncio").serve(app, config))


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)  # everything is in memory: there is nothing to save


if __name__ == "__main__":
    main()
