import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotgrad.errors import Malformed
from spotgrad.protocol.tensor_header import MAX_HEADER_BYTES, Entry, read_header, write_header

SIZES = {"F32": 4, "U8": 1}
texts = st.text(st.characters(codec="utf-8"), max_size=8)


@given(
    st.lists(st.integers(0, 5), max_size=5),
    st.dictionaries(texts, texts, max_size=3),
)
def test_what_is_written_is_read_back(lengths: list[int], metadata: dict[str, str]) -> None:
    ends = [0]
    for length in lengths:
        ends.append(ends[-1] + 4 * length)
    entries = {
        f"t{number}": Entry("F32", (lengths[number],), begin, end)
        for number, (begin, end) in enumerate(pairwise(ends))
    }
    head = write_header(entries, metadata)
    read = read_header(memoryview(head), SIZES)
    assert read.entries == entries
    assert read.metadata == metadata
    assert read.start == len(head)
    assert read.end == len(head) + ends[-1]
    assert read.start % 8 == 0


def test_a_header_is_plain_json_behind_its_length() -> None:
    head = write_header({"w": Entry("U8", (2, 3), 0, 6)}, {"b": "é", "a": "1"})
    assert int.from_bytes(head[:8], "little") == len(head) - 8
    assert json.loads(head[8:]) == {
        "__metadata__": {"a": "1", "b": "é"},
        "w": {"dtype": "U8", "shape": [2, 3], "data_offsets": [0, 6]},
    }
    assert "é".encode() in head


def test_the_limit_itself_is_allowed() -> None:
    overhead = len(b'{"__metadata__":{"a":""}}')
    head = write_header({}, {"a": "x" * (MAX_HEADER_BYTES - overhead)})
    assert len(head) == 8 + MAX_HEADER_BYTES
    assert read_header(memoryview(head), SIZES).entries == {}
    with pytest.raises(Malformed, match="a header of 16000008 bytes is over the limit"):
        write_header({}, {"a": "x" * (MAX_HEADER_BYTES - overhead + 1)})


def test_only_dtypes_that_the_reader_knows_are_accepted() -> None:
    head = write_header({"w": Entry("F64", (1,), 0, 8)}, {})
    with pytest.raises(Malformed, match="tensor 'w': unknown dtype 'F64'"):
        read_header(memoryview(head), SIZES)
    assert read_header(memoryview(head), {"F64": 8}).end == len(head) + 8
