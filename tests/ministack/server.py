"""``python -m tests.ministack.server``: ministack on a free loopback port, as one process.

Runs on the interpreter of ministack's own virtual environment, so it imports nothing of ours. What
it promises is what ``infra.local.emulator.Server`` asks for: one JSON line ``{"port": N}``, and an
end when standard input closes. Nothing of ministack is mended here: what the tests find is its own.
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


def main() -> None:
    """Serve until standard input closes."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    listener = socket.create_server((LOOPBACK, 0), backlog=BACKLOG)
    port = listener.getsockname()[1]
    os.environ["GATEWAY_PORT"] = str(port)  # noqa: TID251 -- ministack reads it as it is imported
    app = import_module("ministack.app").app
    hypercorn = import_module("hypercorn.asyncio")
    config = import_module("hypercorn.config").Config()
    config.bind = [f"fd://{listener.fileno()}"]
    config.loglevel = "WARNING"
    sys.stdout.write(json.dumps({"port": port}) + "\n")
    sys.stdout.flush()
    asyncio.run(hypercorn.serve(app, config))


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)  # everything is in memory: there is nothing to save


if __name__ == "__main__":
    main()
