"""Key -> path below a root, or a refusal: no key leads out of its folder."""

from pathlib import Path, PurePosixPath

from spotgrad.errors import Unsupported

__all__ = ["LOCK", "PRIVATE", "is_path", "path_of"]

PRIVATE = ".spotgrad-"
"""How the names of the store's own files in its root begin; no key does."""

LOCK = f"{PRIVATE}lock"


def is_path(key: str) -> bool:
    """Tell whether ``key`` names exactly one path below a root, and none of the store's own."""
    if "\\" in key or "\0" in key or key.startswith(PRIVATE):
        return False
    return not {"", ".", ".."} & set(key.split("/"))


def path_of(root: Path, key: str) -> Path:
    """Return the path of ``key`` below ``root``.

    Raises:
        Unsupported: the key is absolute, or has an empty part, ``.``, ``..``, a backslash or NUL.
    """
    if not is_path(key):
        raise Unsupported(f"key {key!r} in {root}: it cannot be the path of a file")
    return root / PurePosixPath(key)
