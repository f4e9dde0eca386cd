"""One YAML document of plain data: mappings, lists, text, numbers, booleans and null. Nothing else.

PyYAML's parser and none of its constructors: scalars are read by the YAML 1.2 core schema here
(https://yaml.org/spec/1.2.2/#103-core-schema), so ``1e-3`` is a number, and ``yes``, ``1_000`` and
``2024-01-01`` are text. Anchors, aliases, tags, merge keys, duplicate keys and a second document
are refused. Invariant: size, depth and time are bounded, and what comes out can be written as JSON.
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from spotgrad.errors import Malformed

MAX_BYTES: Final = 1 << 20  # a job file is about 1 kB; this bounds the work before any is done
MAX_DEPTH: Final = 32
MAX_NODES: Final = 10_000
MAX_NUMBER_CHARACTERS: Final = 64

_READERS: Final[tuple[tuple[str, Callable[[str], Any]], ...]] = (
    (r"~|null|Null|NULL|", lambda _: None),
    (r"true|True|TRUE|false|False|FALSE", lambda text: text.lower() == "true"),
    (r"[-+]?[0-9]+", int),
    (r"0o[0-7]+", lambda text: int(text[2:], 8)),
    (r"0x[0-9a-fA-F]+", lambda text: int(text[2:], 16)),
    (r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", float),
    (r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", lambda text: float(text.replace(".", ""))),
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")  # "\\ud800" between double quotes
_SCALARS: Final = tuple((re.compile(pattern), read) for pattern, read in _READERS)


def parse_yaml(body: bytes) -> Any:
    """Read one plain YAML document.

    Raises:
        Malformed: one line saying what is not plain, with line and column where there is one.
    """
    if len(body) > MAX_BYTES:
        raise Malformed(f"{len(body)} bytes are over the limit of {MAX_BYTES}")
    try:
        return _Reader(body.decode()).document()
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8 text: {error.reason} at byte {error.start}") from error
    except yaml.MarkedYAMLError as error:
        raise Malformed(f"{_place(error.problem_mark)}{error.problem or error.context}") from error
    except yaml.YAMLError as error:  # a character that YAML does not allow: it has no mark
        raise Malformed(f"not YAML: {str(error).splitlines()[0]}") from error


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""


def _refuse(event: Any, problem: str) -> NoReturn:
    raise Malformed(_place(event.start_mark) + problem)


class _Reader:
    """Recursive descent over the parser's events, never deeper than ``MAX_DEPTH``."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[Any] = yaml.parse(text, Loader=yaml.SafeLoader)
        self._nodes = 0

    def document(self) -> Any:
        """Read the stream: start, one document, end."""
        next(self._events)
        if not isinstance(next(self._events), DocumentStartEvent):
            raise Malformed("the file is empty")
        value = self._value(next(self._events), depth=0)
        next(self._events)
        extra = next(self._events)
        if isinstance(extra, DocumentStartEvent):
            _refuse(extra, "a second document begins here: one file holds one")
        return value

    def _value(self, event: Any, depth: int) -> Any:
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            _refuse(event, f"more than {MAX_DEPTH} levels or {MAX_NODES} values")
        if isinstance(event, AliasEvent) or event.anchor is not None:
            _refuse(event, "anchors and aliases are not allowed: write the value out")
        if event.tag is not None:
            _refuse(event, "tags are not allowed: write plain data")
        if isinstance(event, MappingStartEvent):
            return self._mapping(depth + 1)
        if isinstance(event, SequenceStartEvent):
            return self._sequence(depth + 1)
        return _scalar(event)

    def _sequence(self, depth: int) -> list[Any]:
        values: list[Any] = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            values.append(self._value(event, depth))
        return values

    def _mapping(self, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            key = self._value(event, depth)
            if not isinstance(key, str):
                _refuse(event, "a key must be text: put it in quotes")
            if key == "<<" and event.implicit[0]:
                _refuse(event, "merge keys are not allowed: write the values out")
            if key in values:
                _refuse(event, f"duplicate key {key[:60]!r}")
            values[key] = self._value(next(self._events), depth)
        return values


def _scalar(event: ScalarEvent) -> Any:
    """Read a quoted scalar as text, a plain one by the core schema."""
    if _SURROGATE.search(event.value):
        _refuse(event, "half a surrogate pair is no character")
    if not event.implicit[0]:
        return event.value
    for pattern, read in _SCALARS:
        if pattern.fullmatch(event.value):
            return _finite(event, read)
    return event.value


def _finite(event: ScalarEvent, read: Callable[[str], Any]) -> Any:
    if len(event.value) > MAX_NUMBER_CHARACTERS:
        _refuse(
            event, f"a number of more than {MAX_NUMBER_CHARACTERS} characters: put it in quotes"
        )
    value = read(event.value)
    if isinstance(value, float) and not math.isfinite(value):
        _refuse(event, f"{event.value} is not a finite number")
    return value
