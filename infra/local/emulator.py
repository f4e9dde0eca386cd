"""The parent's side of the local AWS: start its server, know the address, end it.

The emulator holds all state in memory: what is worth keeping is in the bucket, and whoever stops
the run saves the bucket first.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from infra.local.child import Child
from infra.local.environment import child_environment
from spotgrad.errors import Reject

_GRACE_SECONDS = 2.0


@dataclass(frozen=True)
class Server:
    """A module that serves S3 and SQS on loopback, in the account and region of ``LOCAL_PSEUDO``.

    It prints one JSON line ``{"port": N}`` when it listens, and ends when its standard input does.
    """

    module: str
    environment: Mapping[str, str] = field(default_factory=dict)


MOTO = Server("infra.local.server")


class EmulatorFailed(Reject):
    """The server did not start."""


class Emulator:
    """One running server; a context manager that ends it."""

    def __init__(self, log: Path, server: Server = MOTO) -> None:
        environment = child_environment(extra=server.environment)
        self._child = Child(server.module, environment=environment, log=log)
        ready = self._child.stdout.readline()
        if not ready:
            self.close()
            raise EmulatorFailed(f"the local AWS emulator did not start; see {log}")
        self.endpoint_url = f"http://127.0.0.1:{json.loads(ready)['port']}"

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._child.poll() is None

    @property
    def exit_status(self) -> int | None:
        """The status it ended with, or None while it runs."""
        return self._child.poll()

    @property
    def pid(self) -> int:
        """The process id, for the count of what is left over."""
        return self._child.pid

    def close(self) -> None:
        """End the process; safe to call twice."""
        self._child.end(grace_seconds=_GRACE_SECONDS)
        self._child.stdout.close()

    def __enter__(self) -> "Emulator":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
