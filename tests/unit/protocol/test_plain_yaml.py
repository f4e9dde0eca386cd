import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from spotgrad.errors import Malformed
from spotgrad.protocol.plain_yaml import MAX_BYTES, MAX_DEPTH, MAX_NODES, parse_yaml

# JSON lets through what YAML forbids (control characters, U+FFFE) or breaks lines at (U+2028).
texts = st.text(
    st.characters(
        codec="utf-8", exclude_categories=["Cc", "Cn", "Zl", "Zp"], exclude_characters="\ufeff"
    ),
    max_size=10,
)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(texts, children, max_size=4),
    max_leaves=12,
)


@given(plain)
def test_json_is_yaml(value: Any) -> None:
    # Characters as they are: "\\ud83d\\ude00" is one character in JSON and none in YAML.
    assert parse_yaml(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E3", 1000.0),
        ("-1.5e+2", -150.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("+1.0", 1.0),
        ("12", 12),
        ("-12", -12),
        ("+12", 12),
        ("012", 12),
        ("0o17", 15),
        ("0xfF", 255),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("-0x1", "-0x1"),
        ("1e", "1e"),
        (".", "."),
        ("6h", "6h"),
        ("2024-01-01", "2024-01-01"),
        ("1.2.3", "1.2.3"),
        ("٣", "٣"),
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("TRUE", True),
        ("tRUE", "tRUE"),
        ("null", None),
        ("~", None),
        ("", None),
        ("Nil", "Nil"),
        ("'1'", "1"),
        ('"true"', "true"),
        ("''", ""),
        ("'<<'", "<<"),
        ("inf", "inf"),
        ("nan", "nan"),
        ("=", "="),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: Any) -> None:
    parsed = parse_yaml(f"a: {text}".encode())
    assert parsed == {"a": value}
    assert type(parsed["a"]) is type(value)


def test_blocks_flows_and_comments() -> None:
    body = b"""\xef\xbb\xbf%YAML 1.2
---
name: digits   # a comment
list: [1, [2], {three: 3}]
nested:
  - a: 1
    b: |
      two
      lines
  - ~
...
"""
    assert parse_yaml(body) == {
        "name": "digits",
        "list": [1, [2], {"three": 3}],
        "nested": [{"a": 1, "b": "two\nlines\n"}, None],
    }


def test_a_key_may_occur_in_two_places() -> None:
    assert parse_yaml(b"a: {b: 1}\nc: {b: 2}") == {"a": {"b": 1}, "c": {"b": 2}}


def test_a_quoted_merge_key_is_an_ordinary_key() -> None:
    assert parse_yaml(b'"<<": 1') == {"<<": 1}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the file is empty"),
        (b"# only a comment\n", "the file is empty"),
        (b"\xff\xfea\0", "not UTF-8 text: invalid start byte at byte 0"),
        (b"a: \x00", "not YAML: unacceptable character #x0000: special characters are not allowed"),
        (b"a: 1\nb: [1, 2", "line 2, column 9: expected ',' or ']', but got '<stream end>'"),
        (b"a: b: c", "line 1, column 5: mapping values are not allowed here"),
        (b"a: 1\n\tb: 2", "line 2, column 1: found character '\\t' that cannot start any token"),
        (b"%YAML 3.0\n---\na: 1", "line 1, column 1: found incompatible YAML document"),
        (b"a: 1\n---\nb: 2", "line 2, column 1: a second document begins here: one file holds one"),
        (b"a: 1\na: 2", "line 2, column 1: duplicate key 'a'"),
        (b'a: {b: 1, "b": 2}', "line 1, column 11: duplicate key 'b'"),
        (b"a: &x 1", "line 1, column 4: anchors and aliases are not allowed: write the value out"),
        (b"a: &x [1]", "line 1, column 4: anchors"),
        (b"&x a: 1", "line 1, column 1: anchors"),
        (b"a: *x", "line 1, column 4: anchors"),
        (b"*x : 1", "line 1, column 1: anchors"),
        (b"a: !!str 1", "line 1, column 4: tags are not allowed: write plain data"),
        (b"a: !!binary aGk=", "line 1, column 4: tags"),
        (b"a: !mine {}", "line 1, column 4: tags"),
        (b"a: ! 1", "line 1, column 4: tags"),
        (b"!!map {a: 1}", "line 1, column 1: tags"),
        (b"!!str a: 1", "line 1, column 1: tags"),
        (b"a: !!python/object/apply:os.system ['true']", "line 1, column 4: tags"),
        (b"%TAG ! tag:yaml.org,2002:python/\n---\na: !none x", "line 3, column 4: tags"),
        (b"a: {<<: {b: 1}}", "line 1, column 5: merge keys are not allowed: write the values out"),
        (b"1: a", "line 1, column 1: a key must be text: put it in quotes"),
        (b"true: a", "line 1, column 1: a key must be text"),
        (b"{: a}", "line 1, column 2: expected the node content"),
        (b"? [a]\n: b", "line 1, column 3: a key must be text"),
        (b"? {a: 1}\n: b", "line 1, column 3: a key must be text"),
        (b"a: .nan", "line 1, column 4: .nan is not a finite number"),
        (b"a: -.inf", "line 1, column 4: -.inf is not a finite number"),
        (b"a: .INF", "line 1, column 4: .INF is not a finite number"),
        (b"a: 1e999", "line 1, column 4: 1e999 is not a finite number"),
        (b"a: " + b"1" * 65, "line 1, column 4: a number of more than 64 characters"),
        (b'a: "\\ud83d\\ude00"', "line 1, column 4: half a surrogate pair is no character"),
        (b'"\\udfff": 1', "line 1, column 1: half a surrogate pair is no character"),
    ],
)
def test_what_is_not_plain_is_refused_with_its_place(body: bytes, said: str) -> None:
    with pytest.raises(Malformed) as caught:
        parse_yaml(body)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_a_long_key_with_line_breaks_is_named_in_one_short_line() -> None:
    key = json.dumps("a\n" * 100).encode()
    with pytest.raises(Malformed, match="duplicate key") as caught:
        parse_yaml(b"{" + key + b": 1, " + key + b": 2}")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_five_megabytes_are_refused_before_they_are_read() -> None:
    # The body is not even YAML: only its size can have been looked at.
    with pytest.raises(Malformed, match="5242880 bytes are over the limit of 1048576"):
        parse_yaml(b"\xff" * (5 << 20))
    assert parse_yaml(b"a".ljust(MAX_BYTES)) == "a"


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_depth_is_bounded_whatever_opens(opening: str) -> None:
    with pytest.raises(Malformed, match="more than 32 levels or 10000 values"):
        parse_yaml((opening * 20_000).encode())


def test_a_billion_laughs_end_at_the_first_anchor() -> None:
    lines = ["a0: &a0 [lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    with pytest.raises(Malformed, match=r"^line 1, column 5: anchors and aliases"):
        parse_yaml("\n".join(lines).encode())


@pytest.mark.parametrize(
    "tag",
    [
        *("object:os.system", "object/apply:os.system", "object/new:type", "name:os.system"),
        *("module:os", "tuple", "bytes"),
    ],
)
def test_no_tag_of_python_s_builds_anything(tag: str) -> None:
    for text in (f"a: !!python/{tag} ['true']", f"a: !<tag:yaml.org,2002:python/{tag}> x"):
        with pytest.raises(Malformed, match="tags are not allowed"):
            parse_yaml(text.encode())


def test_the_deepest_allowed_document_is_read() -> None:
    value = parse_yaml(("[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH).encode())
    for _ in range(MAX_DEPTH):
        (value,) = value
    assert value == 1


def test_the_number_of_values_is_bounded() -> None:
    assert len(parse_yaml(b"[" + b"1," * (MAX_NODES - 1) + b"]")) == MAX_NODES - 1
    with pytest.raises(Malformed, match="more than 32 levels or 10000 values"):
        parse_yaml(b"[" + b"1," * MAX_NODES + b"]")


@given(
    st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace"))
)
def test_arbitrary_bytes_give_json_or_one_line(body: bytes) -> None:
    try:
        value = parse_yaml(body)
    except Malformed as error:
        assert "\n" not in str(error)  # noqa: PT017 - either outcome is right
        return
    assert json.loads(json.dumps(value, allow_nan=False)) == value


@given(st.text("a1:-[]{},'\"#&*!|>%@?~ \n", max_size=30))
def test_yaml_like_text_agrees_with_pyyaml_on_what_is_well_formed(text: str) -> None:
    try:
        value = parse_yaml(text.encode())
    except Malformed:
        return
    assert json.dumps(value, allow_nan=False)
    assert len(list(yaml.parse(text, Loader=yaml.SafeLoader))) > 2
