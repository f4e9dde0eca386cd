"""An object store in memory, as strict as S3 and stricter than moto.

Conditional writes are atomic under threads (moto's are not), 409 can be ordered (moto never sends
it), a missing key under an entity tag is a lost condition, keys and bodies are checked, and time
is a ``FakeClock``'s. Entity tags are MD5 of the content, as S3's: writing the same bytes again
restores an old tag.
"""

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from spotgrad.errors import ConditionFailed, NotFound, Unsupported
from spotgrad.ports import Absent, ObjectInfo, StoredObject
from tests.fakes.clock import FakeClock
from tests.fakes.faults import Crashed, Fault, Faults

MOST_KEY_BYTES = 1024


@dataclass(frozen=True)
class Write:
    """A write, as the hook sees it: ``number`` counts the writes of the store from 1."""

    moment: Literal["before", "after"]
    operation: Literal["put", "delete"]
    key: str
    number: int


WriteHook = Callable[[Write], None]


def crash_at(number: int, moment: Literal["before", "after"] = "after") -> WriteHook:
    """Return a hook by which the process dies before or after the store's ``number``-th write."""

    def hook(write: Write) -> None:
        if (write.number, write.moment) == (number, moment):
            raise Crashed(f"{moment} write {number}: {write.operation} {write.key}")

    return hook


class FakeStore:
    """The port ``ObjectSweeper``.

    Args:
        clock: writes ``modified_at``.

    Attributes:
        on_write: called, outside of every lock, before and after each write; it may raise
            (``crash_at``) or write itself (another process that comes in between).
        faults: order them with ``store.faults.order(Fault.CONFLICT, key=...)``.
        calls: number of calls by operation, failed ones included.
    """

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.faults = Faults()
        self.calls: Counter[str] = Counter()
        self.on_write: WriteHook | None = None
        self._lock = threading.Lock()
        self._writes = 0
        self._objects: dict[str, tuple[bytes, ObjectInfo]] = {}

    def get(self, key: str) -> StoredObject:
        self._begin("get", key)
        with self._lock:
            if key not in self._objects:
                raise NotFound(f"get {key}: there is no such key")
            body, info = self._objects[key]
            return StoredObject(body=body, etag=info.etag)

    def put(self, key: str, body: bytes, *, only_if: Absent | str | None = None) -> str:
        _check(key, body)
        self._begin("put", key)
        number = self._announce("put", key)
        if only_if is not None and self.faults.strikes(Fault.CONFLICT, "put", key):
            raise ConditionFailed(f"put {key}: 409 ConditionalRequestConflict (injected)")
        etag = self._write(key, bytes(body), only_if)
        self._tell("after", "put", key, number)
        self.faults.raise_answer_lost("put", key)
        return etag

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self._begin("list", prefix)
        with self._lock:
            found = [info for key, (_, info) in self._objects.items() if key.startswith(prefix)]
        return iter(sorted(found, key=lambda info: info.key.encode()))

    def delete(self, key: str) -> None:
        self._begin("delete", key)
        number = self._announce("delete", key)
        with self._lock:
            self._objects.pop(key, None)
        self._tell("after", "delete", key, number)
        self.faults.raise_answer_lost("delete", key)

    def snapshot(self) -> dict[str, bytes]:
        """Return every key and body, for assertions."""
        with self._lock:
            return {key: body for key, (body, _) in sorted(self._objects.items())}

    def _begin(self, operation: str, key: str) -> None:
        with self._lock:
            self.calls[operation] += 1
        self.faults.raise_unavailable(operation, key)

    def _announce(self, operation: Literal["put", "delete"], key: str) -> int:
        with self._lock:
            self._writes += 1
            number = self._writes
        self._tell("before", operation, key, number)
        return number

    def _tell(
        self,
        moment: Literal["before", "after"],
        operation: Literal["put", "delete"],
        key: str,
        number: int,
    ) -> None:
        if self.on_write is not None:
            self.on_write(Write(moment, operation, key, number))

    def _write(self, key: str, body: bytes, only_if: Absent | str | None) -> str:
        etag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
        with self._lock:
            present = self._objects[key][1].etag if key in self._objects else None
            if only_if is not None and present != (None if only_if == Absent() else only_if):
                raise ConditionFailed(f"put {key}: 412, it is {present or 'absent'}")
            info = ObjectInfo(key, len(body), etag, self.clock.now())
            self._objects[key] = (body, info)
        return etag


def _check(key: str, body: object) -> None:
    if not 1 <= len(key.encode()) <= MOST_KEY_BYTES:
        raise Unsupported(f"key of {len(key.encode())} bytes: S3 takes 1 to {MOST_KEY_BYTES}")
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise TypeError(f"put {key}: a body is bytes, not {type(body).__name__}")
