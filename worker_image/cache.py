"""Bytes that were fetched once, by their SHA-256, under a limit: the paper's sticky files.

Not a store: an entry may vanish at any time, and every hit is verified again by whoever asks, so
a damaged file costs one download. Invariant: the bytes kept never exceed the limit. Several workers
may share one folder. A full disk is no reason to go on without a cache: the next write on it would
be the user's.
"""

import errno
import logging
import os
import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import Final, Protocol

from worker_image.exit_codes import BadDisk

__all__ = ["FOLDER_BYTES", "MEMORY_BYTES", "Cache", "FolderCache", "MemoryCache", "is_disk_full"]

log = logging.getLogger(__name__)

FOLDER_BYTES: Final = 2 << 30
MEMORY_BYTES: Final = 512 << 20
_UNFINISHED: Final = ".part"


def is_disk_full(error: BaseException) -> bool:
    """Return whether no more can be written on this machine."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


class Cache(Protocol):
    """Bytes by digest; least recently used first to go."""

    def get(self, sha256: str) -> bytes | None:
        """Return what is kept under ``sha256``, or nothing."""
        ...

    def put(self, sha256: str, body: bytes) -> None:
        """Keep ``body`` if it fits, dropping what was not used for longest."""
        ...


class MemoryCache:
    """A cache that lives as long as its worker."""

    def __init__(self, limit_bytes: int = MEMORY_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._bodies: OrderedDict[str, bytes] = OrderedDict()

    def get(self, sha256: str) -> bytes | None:
        """Return what is kept under ``sha256``, or nothing."""
        if sha256 in self._bodies:
            self._bodies.move_to_end(sha256)
        return self._bodies.get(sha256)

    def put(self, sha256: str, body: bytes) -> None:
        """Keep ``body`` if it fits, dropping what was not used for longest."""
        if len(body) > self._limit_bytes:
            return
        self._bodies.pop(sha256, None)
        while sum(map(len, self._bodies.values())) + len(body) > self._limit_bytes:
            self._bodies.popitem(last=False)
        self._bodies[sha256] = body


class FolderCache:
    """A cache on a local disk, kept from one worker to the next."""

    def __init__(self, folder: Path, limit_bytes: int = FOLDER_BYTES) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes

    def get(self, sha256: str) -> bytes | None:
        """Return what is kept under ``sha256``, or nothing."""
        path = self._folder / sha256
        try:
            body = path.read_bytes()
            os.utime(path)  # used just now
        except OSError:  # absent, or another worker has just dropped it
            return None
        return body

    def put(self, sha256: str, body: bytes) -> None:
        """Keep ``body`` if its size allows, dropping what was not used for longest.

        Raises:
            BadDisk: the disk is full, though the cache is within its limit.
        """
        if len(body) > self._limit_bytes:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._make_room(len(body))
            self._write(sha256, body)
        except OSError as error:
            if is_disk_full(error):
                raise BadDisk(f"cache {self._folder}: {error}: use another machine") from error
            # A folder that cannot be written must not cost the subtask.
            log.warning("cache %s: %s not kept: %s", self._folder, sha256, error)

    def _make_room(self, size_bytes: int) -> None:
        found = [(path.stat(), path) for path in self._folder.iterdir() if path.is_file()]
        total = sum(status.st_size for status, _ in found) + size_bytes
        for status, path in sorted(found, key=lambda row: row[0].st_mtime_ns):
            if total <= self._limit_bytes:
                return
            path.unlink(missing_ok=True)
            total -= status.st_size

    def _write(self, sha256: str, body: bytes) -> None:
        """Write aside and rename: a worker killed half-way leaves no half entry."""
        handle, name = tempfile.mkstemp(dir=self._folder, suffix=_UNFINISHED)
        unfinished = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(body)
            unfinished.replace(self._folder / sha256)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
