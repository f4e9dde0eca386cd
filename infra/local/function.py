"""Functions as AWS Lambda runs them: warm child processes, one invocation each, killed on timeout.

Nothing here knows where events come from. A child that dies or is killed is replaced at the next
invocation; its state, caches and half-done work are gone, as they are on AWS.
"""

import json
import queue
import signal
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from infra.local.child import Child
from infra.local.environment import CALLER
from infra.local.topology import FunctionResource

_COLD_START_SECONDS = 60.0  # Lambda grants 10; a busy laptop imports slowly


class InvocationFailed(Exception):
    """An invocation gave no response; the event source decides what becomes of its event."""


class FunctionRaised(InvocationFailed):
    """The handler, or its import, raised."""


class FunctionTimedOut(InvocationFailed):
    """The handler ran past the function's timeout and was killed."""


class EnvironmentDied(InvocationFailed):
    """The process ended while it was at work."""


@dataclass(frozen=True)
class Deployment:
    """A function as it is deployed: its resource, its resolved environment, where its log goes.

    ``start`` is how its processes begin.
    """

    function: FunctionResource
    environment: Mapping[str, str]
    log: Path
    start: type[Child] = Child


class ExecutionEnvironment:
    """One child process, started at the first invocation; one invocation at a time."""

    def __init__(self, deployment: Deployment, number: int = 0) -> None:
        self.name = f"{deployment.function.logical_id}-{number}"
        self._deployment = deployment
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._child: Child | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """The process id of the latest child, or None before the first invocation."""
        child = self._child
        return None if child is None else child.pid

    def invoke(self, event: object) -> Any:
        """Return the handler's response, as it reads after a trip through JSON.

        Raises:
            InvocationFailed: it raised, timed out (the process is killed), or died.
        """
        child = self._warm_child()
        _write(child, self._request(event))
        answer = self._answer(child, self._deployment.function.timeout_seconds)
        if "error" in answer:
            raise FunctionRaised(_one_line(answer["error"]))
        return answer["response"]

    def crash(self) -> bool:
        """Kill the process, from another thread; the next invocation starts another one."""
        child = self._child
        return child is not None and child.signal(signal.SIGKILL)

    def close(self) -> None:
        """Kill the process, also from another thread; an invocation under way fails at once."""
        with self._lock:
            self._closed = True
            if self._child is not None:
                self._child.kill()

    def _warm_child(self) -> Child:
        with self._lock:
            if self._closed:
                raise EnvironmentDied(f"{self._name}: the local run is stopping")
            if self._child is not None and self._child.poll() is None:
                return self._child
            child = self._child = self._start()
        ready = self._answer(child, _COLD_START_SECONDS)
        if "error" in ready:
            child.kill()
            raise FunctionRaised(_one_line(ready["error"]))
        return child

    def _start(self) -> Child:
        child = self._deployment.start(
            "infra.local.runtime",
            self._deployment.function.handler,
            environment={**self._deployment.environment, CALLER: self.name},
            log=self._deployment.log,
        )
        self._answers = queue.SimpleQueue()
        reader = threading.Thread(target=_read, args=(child.stdout, self._answers), daemon=True)
        reader.start()
        return child

    def _request(self, event: object) -> dict[str, object]:
        function = self._deployment.function
        return {
            "event": event,
            "request_id": str(uuid.uuid4()),
            "function_name": function.logical_id,
            "memory_mb": function.memory_mb,
            "timeout_seconds": function.timeout_seconds,
        }

    def _answer(self, child: Child, timeout_seconds: float) -> dict[str, Any]:
        try:
            answer = self._answers.get(timeout=timeout_seconds)
        except queue.Empty:
            child.kill()
            raise FunctionTimedOut(f"{self._name}: no answer within {timeout_seconds} s") from None
        if answer is None:
            status = child.kill()
            raise EnvironmentDied(f"{self._name}: its process ended with status {status}")
        return answer

    @property
    def _name(self) -> str:
        return self._deployment.function.logical_id


class FunctionPool:
    """A function's execution environments: started when needed, the warmest used first."""

    def __init__(self, deployment: Deployment, *, concurrency: int) -> None:
        self._all = [ExecutionEnvironment(deployment, number) for number in range(concurrency)]
        self._free: queue.LifoQueue[ExecutionEnvironment] = queue.LifoQueue()
        for environment in self._all:
            self._free.put(environment)

    @property
    def pids(self) -> list[int]:
        """The process ids of the latest child of each environment that was ever needed."""
        return [pid for environment in self._all if (pid := environment.pid) is not None]

    def invoke(self, event: object) -> Any:
        """Invoke in a free environment, waiting for one if all are at work.

        Raises:
            InvocationFailed: see ``ExecutionEnvironment.invoke``.
        """
        environment = self._free.get()
        try:
            return environment.invoke(event)
        finally:
            self._free.put(environment)

    def crash(self, name: str) -> bool:
        """Kill the process of the environment of that name; return whether there was one."""
        return any(one.crash() for one in self._all if one.name == name)

    def close(self) -> None:
        """Kill every environment; invocations under way and later ones fail."""
        for environment in self._all:
            environment.close()


def _read(stream: IO[bytes], answers: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    with stream:
        for line in stream:
            answers.put(json.loads(line))
    answers.put(None)  # the process ended


def _write(child: Child, request: dict[str, object]) -> None:
    try:
        child.stdin.write(json.dumps(request).encode() + b"\n")
        child.stdin.flush()
    except (BrokenPipeError, ValueError):  # it died; the answer that never comes says how
        return


def _one_line(error: Mapping[str, str]) -> str:
    return f"{error['errorType']}: {error['errorMessage']}".replace("\n", " ")
