"""The grammar behind ``keys``: what each field may hold, and how a form of key is read and written.

Not the keys themselves. Invariant: what does not match the grammar can be neither built nor parsed.
"""

import re
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, Final, Self

from spotgrad.errors import Malformed

# Everything is matched with fullmatch: `$` would let a trailing newline pass.
_NAME = "[a-z0-9][a-z0-9-]{0,62}"
_ID = "[0-9a-f]{8,64}"
_TEXTS: Final = {
    "job": _NAME,
    "dataset": _NAME,
    "subtask": "initialize|(?:train|evaluate)-[0-9]{6}",
    "attempt": _ID,
    "commit": _ID,
    "sha256": "[0-9a-f]{64}",
    "sha256_head": "[0-9a-f]{16}",
    "name": "[a-z][a-z0-9_]{0,30}",
}
_DIGITS: Final = {"epoch": 6, "shard": 6, "version": 8, "revision": 8}


def rendered(field: str, value: object) -> str:
    """Return ``value`` as it stands in a key.

    Raises:
        Malformed: the value is outside the field's grammar.
    """
    if field in _DIGITS:
        digits = _DIGITS[field]
        if type(value) is int and 0 <= value < 10**digits:
            return f"{value:0{digits}d}"
        raise Malformed(f"{field} {value!r}: not a whole number of at most {digits} digits")
    if isinstance(value, str) and re.fullmatch(_TEXTS[field], value):
        return value
    raise Malformed(f"{field} {value!r}: does not match {_TEXTS[field]}")


@cache
def _pattern(form: str) -> re.Pattern[str]:
    """Compile the form of a key; ``{field}`` stands for that field's grammar."""
    literals_and_fields = re.split(r"\{(\w+)\}", form)
    pieces = [re.escape(literal) for literal in literals_and_fields]
    for index in range(1, len(pieces), 2):
        field = literals_and_fields[index]
        grammar = f"[0-9]{{{_DIGITS[field]}}}" if field in _DIGITS else _TEXTS[field]
        pieces[index] = f"(?P<{field}>{grammar})"
    return re.compile("".join(pieces))


@dataclass(frozen=True)
class Key:
    """Base of all keys: its subclass says the form, its fields fill it in."""

    form: ClassVar[str] = ""

    def __post_init__(self) -> None:
        self.render()

    def render(self) -> str:
        """Return the key.

        Raises:
            Malformed: a field is outside the grammar (on construction, therefore never later).
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return self.form.format(**{name: rendered(name, value) for name, value in values.items()})

    @classmethod
    def texts(cls, key: str) -> dict[str, str]:
        """Return the text of each field in ``key``; a fraction of the cost of ``parse``.

        Raises:
            Malformed: the key is not of this form; the form that was expected is named.
        """
        match = _pattern(cls.form).fullmatch(key)
        if match is None:
            expected = re.sub(r"\{(\w+)\}", r"<\1>", cls.form)
            raise Malformed(f"key {key!r}: not of the form {expected}")
        return match.groupdict()

    @classmethod
    def parse(cls, key: str) -> Self:
        """Read what ``render`` wrote.

        Raises:
            Malformed: as ``texts``.
        """
        values: dict[str, Any] = {
            name: int(text) if name in _DIGITS else text for name, text in cls.texts(key).items()
        }
        return cls(**values)
