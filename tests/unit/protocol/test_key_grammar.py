from dataclasses import dataclass
from typing import ClassVar

import pytest

from spotgrad.errors import Malformed
from spotgrad.protocol.key_grammar import Key, rendered


@dataclass(frozen=True)
class Odd(Key):
    """A form with characters that mean something to a regular expression."""

    form: ClassVar[str] = "a.b+c/{epoch}-{job}(x)"
    epoch: int
    job: str


def test_literals_stand_for_themselves() -> None:
    assert Odd(3, "d").render() == "a.b+c/000003-d(x)"
    assert Odd.parse("a.b+c/000003-d(x)") == Odd(3, "d")
    with pytest.raises(Malformed, match=r"not of the form a\.b\+c/<epoch>-<job>\(x\)"):
        Odd.parse("aXb+c/000003-d(x)")


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("epoch", 0, "000000"),
        ("shard", 999_999, "999999"),
        ("version", 1, "00000001"),
        ("revision", 99_999_999, "99999999"),
        ("job", "a-1", "a-1"),
        ("commit", "0123abcd", "0123abcd"),
    ],
)
def test_a_field_is_rendered(field: str, value: object, text: str) -> None:
    assert rendered(field, value) == text


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("version", 100_000_000, "version 100000000: not a whole number of at most 8 digits"),
        ("epoch", None, "epoch None: not a whole number of at most 6 digits"),
        ("dataset", "a/b", r"dataset 'a/b': does not match \[a-z0-9\]"),
        ("name", "Server", "name 'Server': does not match"),
        ("commit", None, "commit None: does not match"),
    ],
)
def test_what_the_grammar_does_not_hold_is_named(field: str, value: object, said: str) -> None:
    with pytest.raises(Malformed, match=said):
        rendered(field, value)
