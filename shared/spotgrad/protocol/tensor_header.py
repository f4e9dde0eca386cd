"""The header of a safetensors file: what lies where, proved consistent before any data is touched.

Not the data, and no numpy: sizes of dtypes are passed in. Invariant: an accepted header's tensors
cover the data from 0 to ``end`` without hole or overlap, and every shape fits its bytes.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NoReturn

from spotgrad.errors import Malformed

MAX_HEADER_BYTES: Final = 16_000_000  # the safetensors library allows 100 MB
MAX_DIMENSIONS: Final = 32  # what every numpy can hold
METADATA: Final = "__metadata__"
_LENGTH_BYTES: Final = 8
_ENTRY_KEYS: Final = {"dtype", "shape", "data_offsets"}


class Entry(NamedTuple):
    """One tensor: where its bytes lie, counted from the first byte after the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class FileHeader:
    """``start``: the first byte of the data in the file; ``end``: the file's size in bytes."""

    entries: dict[str, Entry]
    metadata: dict[str, str]
    start: int
    end: int


def write_header(entries: Mapping[str, Entry], metadata: Mapping[str, str]) -> bytes:
    """Return length prefix and header, padded so that the data starts at a multiple of 8.

    Raises:
        Malformed: text that is not Unicode, or a header over the limit.
    """
    document: dict[str, Any] = {METADATA: dict(sorted(metadata.items()))} if metadata else {}
    for name, entry in entries.items():
        offsets = [entry.begin, entry.end]
        document[name] = {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": offsets}
    _check_unicode([*entries, *metadata, *metadata.values()])
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    _check_length(len(text))
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def read_header(view: memoryview, item_sizes: Mapping[str, int]) -> FileHeader:
    """Read and prove the header; ``item_sizes`` holds the bytes per item of each known dtype.

    Raises:
        Malformed: one line naming the first thing that is wrong.
    """
    if len(view) < _LENGTH_BYTES:
        _refuse(f"{len(view)} bytes end before the header's length does: the file is truncated")
    length = int.from_bytes(view[:_LENGTH_BYTES], "little")
    _check_length(length)
    start = _LENGTH_BYTES + length
    if len(view) < start:
        _refuse(f"{len(view)} bytes end before the header does (at {start}): the file is truncated")
    document = _parse(bytes(view[_LENGTH_BYTES:start]))
    metadata = document.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        _refuse("the metadata is not a mapping of text to text")
    _check_unicode([*document, *metadata, *metadata.values()])
    entries = {name: _entry(name, value, item_sizes) for name, value in document.items()}
    return FileHeader(entries, metadata, start, start + _covered(entries))


def _refuse(problem: str) -> NoReturn:
    raise Malformed(f"safetensors: {problem[:300]}")  # a name alone may be 16 MB long


def _check_unicode(texts: list[str]) -> None:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        _refuse(f"a name or the metadata is not Unicode text: {error.reason}")


def _check_length(length: int) -> None:
    if length > MAX_HEADER_BYTES:
        _refuse(f"a header of {length} bytes is over the limit of {MAX_HEADER_BYTES}")


def _parse(text: bytes) -> dict[str, Any]:
    try:
        # RecursionError: "[[[[..." deeper than the interpreter's stack.
        document = json.loads(text.decode(), object_pairs_hook=_distinct, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"safetensors: the header is not JSON: {error}") from error
    if not isinstance(document, dict):
        _refuse("the header is not a JSON object")
    return document


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")  # Python's json would accept NaN and Infinity


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        _refuse("the header says the same name twice")
    return found


def _entry(name: str, value: Any, item_sizes: Mapping[str, int]) -> Entry:
    if not isinstance(value, dict) or value.keys() != _ENTRY_KEYS:
        _refuse(f"tensor {name!r}: needs exactly dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in item_sizes:
        _refuse(f"tensor {name!r}: unknown dtype {dtype!r}")
    if not _are_sizes(shape) or len(shape) > MAX_DIMENSIONS:
        _refuse(f"tensor {name!r}: the shape is not a list of at most {MAX_DIMENSIONS} sizes")
    if not _are_sizes(offsets) or len(offsets) != 2:
        _refuse(f"tensor {name!r}: data_offsets are not two byte counts")
    if math.prod(size or 1 for size in shape) * item_sizes[dtype] >= 2**63:
        _refuse(f"tensor {name!r}: the shape {shape} is beyond any memory")
    begin, end = offsets
    size = math.prod(shape) * item_sizes[dtype]
    if end - begin != size:
        _refuse(f"tensor {name!r}: {dtype} {shape} takes {size} bytes, not {end - begin}")
    return Entry(dtype, tuple(shape), begin, end)


def _are_sizes(values: Any) -> bool:
    """Return whether this is a list of non-negative 64-bit numbers (``True`` is none)."""
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 2**63 for v in values)


def _covered(entries: Mapping[str, Entry]) -> int:
    """Return the size of the data, or refuse holes and overlaps."""
    reached = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != reached:
            fault = "overlaps the one before" if entry.begin < reached else "leaves a hole"
            _refuse(f"tensor {name!r}: begins at {entry.begin}, not at {reached}: it {fault}")
        reached = entry.end
    return reached
