"""What a file system raises -> ``spotgrad.errors``; the counterpart of ``aws/translate.py``."""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from spotgrad.errors import AccessDenied, NotFound, SpotgradError, StoreUnavailable, Unsupported

__all__ = ["translated"]

BY_ERRNO: Mapping[int, type[SpotgradError]] = MappingProxyType(
    {
        errno.ENOENT: NotFound,
        errno.EACCES: AccessDenied,
        errno.EPERM: AccessDenied,
        errno.EROFS: AccessDenied,
        errno.ENAMETOOLONG: Unsupported,
        # S3 can hold both "a" and "a/b"; a folder cannot.
        errno.EISDIR: Unsupported,
        errno.ENOTDIR: Unsupported,
        errno.EEXIST: Unsupported,
    }
)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn an ``OSError`` inside into ``spotgrad.errors``; the cause is kept.

    A full disk, an input/output error and whatever else is not listed may pass: they are retried.
    """
    try:
        yield
    except OSError as error:
        kind = BY_ERRNO.get(error.errno or 0, StoreUnavailable)
        raise kind(f"{what}: {error.strerror or error}") from error
