"""Key -> path below a root, or a refusal: no key leads out of its folder."""

from pathlib import Path, PurePosixPath

from spotgrad.directory.failures import translated
from spotgrad.errors import Unsupported

__all__ = ["LOCK", "PRIVATE", "is_link", "is_path", "path_of"]

PRIVATE = ".spotgrad-"
"""How the names of the store's own files in its root begin; no key does."""

LOCK = f"{PRIVATE}lock"


def is_path(key: str) -> bool:
    """Tell whether ``key`` names exactly one path below a root, and none of the store's own."""
    if "\\" in key or "\0" in key or key.startswith(PRIVATE):
        return False
    return not {"", ".", ".."} & set(key.split("/"))


def path_of(root: Path, key: str) -> Path:
    """Return the path of ``key`` below ``root``; the root itself may be a link.

    Raises:
        Unsupported: the key is absolute, or has an empty part, ``.``, ``..``, a backslash or NUL;
            or it goes through a link, which may lead anywhere.
    """
    if not is_path(key):
        raise Unsupported(f"key {key!r} in {root}: it cannot be the path of a file")
    path = root / PurePosixPath(key)
    with translated(f"look at {path}"):
        linked = is_link(root, path)
    if linked:
        raise Unsupported(f"key {key!r} in {root}: it goes through a link, and may lead elsewhere")
    return path


def is_link(root: Path, path: Path) -> bool:
    """Tell whether ``path``, or a folder between it and ``root``, is a link."""
    below = path.relative_to(root).parts
    return any(root.joinpath(*below[:depth]).is_symlink() for depth in range(1, len(below) + 1))
