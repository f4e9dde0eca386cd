"""The port ``ObjectSweeper`` on a local folder: what ``--bucket DIRECTORY`` reads.

A key is a path below the root. Writes are atomic between threads and processes of one machine: the
body goes to a temporary file first, then one lock file is held while the condition is checked and
the file renamed. Reading takes no lock and needs no permission to write. Not for network file
systems (locks), nor for those that ignore case.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from spotgrad.directory.failures import translated
from spotgrad.directory.paths import LOCK, PRIVATE, is_link, is_path, path_of
from spotgrad.errors import ConditionFailed, NotFound
from spotgrad.ports import Absent, ObjectInfo, StoredObject
from spotgrad.system import new_id

__all__ = ["DirectoryStore"]


class DirectoryStore:
    """The objects below ``root``, which need not exist before the first write."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def get(self, key: str) -> StoredObject:
        """Return the whole object.

        Raises:
            NotFound: there is no such key.
            Unsupported: no path can be made of the key.
        """
        path = path_of(self._root, key)
        with translated(f"get {path}"):
            if not path.is_file():
                raise NotFound(f"get {path}: there is no such object")
            body = path.read_bytes()
        return StoredObject(body=body, etag=_etag(body))

    def put(self, key: str, body: bytes, *, only_if: Absent | str | None = None) -> str:
        """Write the whole object, at once or not at all, and return its new entity tag.

        Raises:
            ConditionFailed: the condition does not hold.
            Unsupported: no path can be made of the key, or a part of it is an object already.
        """
        path = path_of(self._root, key)
        with translated(f"put {path}"), self._written(body) as temporary, self._locked():
            self._check(path, only_if)
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.replace(path)
        return _etag(body)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield every object whose key starts with ``prefix``, in ascending order of key.

        The order is that of S3: by the UTF-8 bytes of the whole key, not folder by folder.
        """
        with translated(f"list {self._root / prefix}"):
            for key in sorted(self._keys(prefix), key=os.fsencode):
                try:
                    yield self._info(key)
                except FileNotFoundError:  # deleted since the walk
                    continue

    def delete(self, key: str) -> None:
        """Delete the object and the folders that it leaves empty; an absent key is no error."""
        path = path_of(self._root, key)
        with translated(f"delete {path}"):
            if not path.is_file():
                return
            with self._locked():
                path.unlink(missing_ok=True)
                self._prune(path.parent)

    @contextmanager
    def _written(self, body: bytes) -> Iterator[Path]:
        # In the root, not beside its target: a folder may be pruned at any moment.
        self._root.mkdir(parents=True, exist_ok=True)
        temporary = self._root / f"{PRIVATE}{new_id()}"
        try:
            with temporary.open("xb") as stream:
                stream.write(body)
                stream.flush()
                os.fsync(stream.fileno())
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # flock belongs to the open file, so that two threads exclude each other too.
        with (self._root / LOCK).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _check(self, path: Path, only_if: Absent | str | None) -> None:
        if only_if is None:
            return
        present = _etag(path.read_bytes()) if path.is_file() else None
        wanted = None if isinstance(only_if, Absent) else only_if
        if present != wanted:
            raise ConditionFailed(
                f"put {path}: it should be {wanted or 'absent'} but is {present or 'absent'}"
            )

    def _keys(self, prefix: str) -> Iterator[str]:
        folder, _, _ = prefix.rpartition("/")
        start = self._root / folder
        if folder and (not is_path(folder) or is_link(self._root, start)):
            return  # no object can have such a key
        for where, _, names in os.walk(start):  # into no linked folder
            below = Path(where).relative_to(self._root)
            for name in names:
                key = (below / name).as_posix()
                plain = not key.startswith(PRIVATE) and not Path(where, name).is_symlink()
                if key.startswith(prefix) and plain:
                    yield key

    def _info(self, key: str) -> ObjectInfo:
        path = self._root / key
        body = path.read_bytes()
        modified_at = datetime.fromtimestamp(path.stat().st_mtime, tz=UTC)
        return ObjectInfo(key=key, size_bytes=len(body), etag=_etag(body), modified_at=modified_at)

    def _prune(self, folder: Path) -> None:
        while folder != self._root:
            try:
                folder.rmdir()
            except OSError:  # not empty
                return
            folder = folder.parent


def _etag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()}"'
