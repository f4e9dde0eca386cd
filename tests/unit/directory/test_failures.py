import errno
import os

import pytest

from spotgrad.directory.failures import translated
from spotgrad.errors import (
    AccessDenied,
    NotFound,
    SpotgradError,
    StoreUnavailable,
    Unsupported,
)


@pytest.mark.parametrize(
    ("number", "wanted"),
    [
        (errno.ENOENT, NotFound),
        (errno.EACCES, AccessDenied),
        (errno.EPERM, AccessDenied),
        (errno.EROFS, AccessDenied),
        (errno.ENAMETOOLONG, Unsupported),
        (errno.EISDIR, Unsupported),
        (errno.ENOTDIR, Unsupported),
        (errno.EEXIST, Unsupported),
        (errno.ENOSPC, StoreUnavailable),
        (errno.EIO, StoreUnavailable),
    ],
)
def test_every_failure_says_what_to_do(number: int, wanted: type[SpotgradError]) -> None:
    cause = OSError(number, os.strerror(number))
    with pytest.raises(wanted) as caught, translated("put a/b"):
        raise cause
    assert type(caught.value) is wanted
    assert str(caught.value) == f"put a/b: {os.strerror(number)}"
    assert caught.value.__cause__ is cause


def test_a_failure_without_a_number_is_retried() -> None:
    with pytest.raises(StoreUnavailable, match="get a: odd"), translated("get a"):
        raise OSError("odd")


def test_what_is_no_failure_of_the_file_system_passes() -> None:
    with pytest.raises(NotFound, match="ours"), translated("get a"):
        raise NotFound("ours")
