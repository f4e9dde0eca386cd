"""Files of the user's: written whole or not at all."""

from pathlib import Path

from spotgrad.system import new_id

__all__ = ["write_atomically"]


def write_atomically(path: Path, body: bytes) -> None:
    """Write ``body`` to ``path``, making its folders; an interruption leaves the old file.

    Raises:
        OSError: what the file system says.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{new_id()}")
    try:
        with temporary.open("xb") as stream:
            stream.write(body)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
