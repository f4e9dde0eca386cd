"""Ways in which a result's bytes go wrong on their way: pure functions of a safetensors body.

Each takes the body and a place from 0 to 1, and returns another body.
"""

from collections.abc import Callable
from typing import Final

_LENGTH_BYTES: Final = 8
_NAN: Final = bytes.fromhex("0000c07f")
_HUGE: Final = bytes.fromhex("ffff7f7f")  # the largest float32: an exponent's bits all set but one

Damage = Callable[[bytes, float], bytes]


def empty(_body: bytes, _place: float) -> bytes:
    """Return nothing at all."""
    return b""


def truncated(body: bytes, place: float) -> bytes:
    """Return the beginning of the body; at least its last byte is missing."""
    return body[: int((len(body) - 1) * place)]


def header_garbage(body: bytes, _place: float) -> bytes:
    """Return the body with a header that is no JSON."""
    return body[:_LENGTH_BYTES] + b"\xff" * 4 + body[_LENGTH_BYTES + 4 :]


def not_a_number(body: bytes, place: float) -> bytes:
    """Return the body with a NaN among its tensors; without tensors, truncated."""
    return _with_item(body, place, _NAN)


def huge_number(body: bytes, place: float) -> bytes:
    """Return the body with 3.4e38 among its tensors; without tensors, truncated."""
    return _with_item(body, place, _HUGE)


DAMAGES: Final[tuple[Damage, ...]] = (empty, truncated, header_garbage, not_a_number, huge_number)


def _with_item(body: bytes, place: float, item: bytes) -> bytes:
    """Overwrite one 4-byte item of the data: fp32 comes right after the header, widest first."""
    begin = _LENGTH_BYTES + int.from_bytes(body[:_LENGTH_BYTES], "little")
    items = (len(body) - begin) // len(item)
    if items < 1:
        return truncated(body, place)
    at = begin + int((items - 1) * place) * len(item)
    return body[:at] + item + body[at + len(item) :]
