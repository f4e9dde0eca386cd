"""A set of shard numbers that is small in the head: one canonical hexadecimal string per set.

Bit i of the number is set when shard i is a member. It has no size of its own: how many shards an
epoch has is said elsewhere. Invariant: equal sets have equal strings, so equal heads equal bytes.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from spotgrad.errors import Malformed

SHARD_LIMIT: Final = 1_000_000  # a shard number has six digits in a key
_FORM: Final = f"0|[1-9a-f][0-9a-f]{{0,{SHARD_LIMIT // 4 - 1}}}"


@dataclass(frozen=True)
class Bitmap:
    """A frozen set of shard numbers; as a pydantic field it travels as its string."""

    bits: int = 0

    def __post_init__(self) -> None:
        if self.bits < 0 or self.bits.bit_length() > SHARD_LIMIT:
            raise Malformed(f"bitmap: holds a number outside 0 to {SHARD_LIMIT - 1}")

    @classmethod
    def of(cls, members: Iterable[int]) -> Self:
        """Return the set of ``members``, in any order and with any repetition."""
        numbers = frozenset(members)
        for number in numbers:
            _check(number)
        flags = bytearray((max(numbers, default=0) >> 3) + 1)
        for number in numbers:
            flags[number >> 3] |= 1 << (number & 7)
        return cls(int.from_bytes(flags, "little"))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what ``render`` wrote.

        Raises:
            Malformed: not hexadecimal, or not the canonical form (leading zeros, capitals, empty).
        """
        if not re.fullmatch(_FORM, text):
            raise Malformed(f"bitmap {text[:40]!r}: not canonical lower-case hexadecimal")
        return cls(int(text, 16))

    def render(self) -> str:
        """Return lower-case hexadecimal without leading zeros; ``0`` for the empty set."""
        return f"{self.bits:x}"

    def has(self, shard: int) -> bool:
        """Return whether ``shard`` is a member."""
        _check(shard)
        return bool(self.bits >> shard & 1)

    def with_(self, shard: int) -> Self:
        """Return this set and ``shard``."""
        _check(shard)
        return type(self)(self.bits | 1 << shard)

    def union(self, other: Self) -> Self:
        """Return the members of either set."""
        return type(self)(self.bits | other.bits)

    def minus(self, other: Self) -> Self:
        """Return the members of this set that ``other`` lacks."""
        return type(self)(self.bits & ~other.bits)

    @property
    def count(self) -> int:
        """Return the number of members."""
        return self.bits.bit_count()

    def members(self) -> Iterator[int]:
        """Yield the members in ascending order."""
        # One pass over a binary string: shifting the number once per member would be quadratic.
        return (shard for shard, bit in enumerate(reversed(f"{self.bits:b}")) if bit == "1")

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Travel as a string; inside Python a ``Bitmap`` is taken as it is."""
        del source, handler
        from_text = core_schema.chain_schema(
            [
                core_schema.str_schema(strict=True),
                core_schema.no_info_plain_validator_function(_parse_field),
            ]
        )
        return core_schema.json_or_python_schema(
            json_schema=from_text,
            python_schema=core_schema.union_schema(
                [core_schema.is_instance_schema(cls), from_text]
            ),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.render),
        )


def _check(shard: int) -> None:
    if not 0 <= shard < SHARD_LIMIT:
        raise Malformed(f"shard {shard!r}: not a number from 0 to {SHARD_LIMIT - 1}")


def _parse_field(text: str) -> Bitmap:
    # pydantic collects ValueError alone: anything else would escape its report of the place.
    try:
        return Bitmap.parse(text)
    except Malformed as error:
        raise ValueError(str(error)) from error
