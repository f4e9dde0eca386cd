from pathlib import Path

import pytest

from spotgrad.directory.paths import is_path, path_of
from spotgrad.errors import Unsupported


@pytest.mark.parametrize(
    "key", ["a", "a/b", "a/..b/c..", ".hidden/x", "a b+é", "~", "a/.spotgrad-x"]
)
def test_a_key_is_a_path_below_the_root(key: str) -> None:
    assert is_path(key)
    assert path_of(Path("/root"), key) == Path(f"/root/{key}")


@pytest.mark.parametrize(
    "key",
    [
        *("", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/.", "./a"),
        *("a\\b", "..\\a", "a\0", ".spotgrad-lock", ".spotgrad-0123/x"),
    ],
)
def test_a_key_that_could_lead_elsewhere_is_refused_and_named(key: str) -> None:
    assert not is_path(key)
    with pytest.raises(Unsupported) as caught:
        path_of(Path("/root"), key)
    assert repr(key) in str(caught.value)
    assert "/root" in str(caught.value)
