import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from spotgrad.errors import Malformed
from spotgrad.protocol.bitmap import SHARD_LIMIT, Bitmap

sets = st.frozensets(st.integers(0, 300))


class Holder(BaseModel):
    shards: Bitmap = Bitmap()


@pytest.mark.parametrize(
    ("members", "text"),
    [([], "0"), ([0], "1"), ([0, 1, 2, 3], "f"), ([4], "10"), ([9, 1, 9], "202")],
)
def test_renders_and_parses(members: list[int], text: str) -> None:
    assert Bitmap.of(members).render() == text
    assert Bitmap.parse(text) == Bitmap.of(members)


@pytest.mark.parametrize(
    "text",
    ["", "00", "0f", "F", "0xf", "-1", "+1", " 1", "1\n", "1_0", "g", "\u0661", "1" * 250_001],
)
def test_what_is_not_canonical_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="not canonical lower-case hexadecimal"):
        Bitmap.parse(text)


@given(sets)
def test_is_the_set_it_was_made_of(members: frozenset[int]) -> None:
    bitmap = Bitmap.of(members)
    assert list(bitmap.members()) == sorted(members)
    assert bitmap.count == len(members)
    assert [shard for shard in range(302) if bitmap.has(shard)] == sorted(members)
    assert Bitmap.parse(bitmap.render()) == bitmap


@given(sets, sets)
def test_union_and_difference_are_those_of_sets(
    left: frozenset[int], right: frozenset[int]
) -> None:
    assert Bitmap.of(left).union(Bitmap.of(right)) == Bitmap.of(left | right)
    assert Bitmap.of(left).minus(Bitmap.of(right)) == Bitmap.of(left - right)


@given(st.permutations([3, 1, 4, 1, 5, 9, 2, 6]))
def test_equal_sets_have_equal_strings_in_whatever_order_they_grew(order: list[int]) -> None:
    bitmap = Bitmap()
    for shard in order:
        bitmap = bitmap.with_(shard)
    assert bitmap.render() == "27e"


def test_adding_makes_a_new_set() -> None:
    before = Bitmap.of([1])
    assert before.with_(2).has(2)
    assert not before.has(2)


@pytest.mark.parametrize("shard", [-1, SHARD_LIMIT])
def test_a_number_that_no_key_can_hold_is_refused(shard: int) -> None:
    for use in (Bitmap().has, Bitmap().with_, lambda number: Bitmap.of([number])):
        with pytest.raises(Malformed, match=f"shard {shard}: not a number from 0 to 999999"):
            use(shard)


@pytest.mark.parametrize("bits", [-1, 1 << SHARD_LIMIT], ids=["negative", "beyond"])
def test_invalid_bits_cannot_be_built(bits: int) -> None:
    with pytest.raises(Malformed, match="outside 0 to 999999"):
        Bitmap(bits)


def test_the_largest_shard_number_travels() -> None:
    last = Bitmap.of([SHARD_LIMIT - 1])
    assert list(Bitmap.parse(last.render()).members()) == [SHARD_LIMIT - 1]


def test_a_hundred_thousand_shards_fit_the_head() -> None:
    full = Bitmap.of(range(100_000))
    assert full.render() == "f" * 25_000
    assert full.count == 100_000
    assert list(full.members()) == list(range(100_000))


def test_travels_as_a_string_in_a_model() -> None:
    holder = Holder(shards=Bitmap.of([0, 9]))
    assert json.loads(holder.model_dump_json()) == {"shards": "201"}
    assert Holder.model_validate_json(holder.model_dump_json()) == holder
    assert Holder.model_validate({"shards": "201"}) == holder
    assert Holder() == Holder(shards=Bitmap.parse("0"))


@pytest.mark.parametrize("value", ["0f", "", 15, None, ["1"], "F"])
def test_a_model_refuses_what_is_not_canonical(value: Any) -> None:
    with pytest.raises(ValidationError, match="shards"):
        Holder.model_validate_json(json.dumps({"shards": value}))
    with pytest.raises(ValidationError, match="shards"):
        Holder.model_validate({"shards": value})
